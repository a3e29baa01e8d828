// SPDX-License-Identifier: BSD-3-Clause
//
// Broken invariants inside the library abort with a message: TUTTI_CHECK is on in every build, TUTTI_DCHECK in debug
// builds only (for checks that cost on the data path). Caller mistakes and system errors are never checked with these.
#pragma once

#include <fmt/format.h>

#include <string>

namespace tutti {

[[noreturn]] void check_failed(const char *file, int line, const char *condition, const std::string &detail);

}  // namespace tutti

#define TUTTI_CHECK(condition, ...)                  \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::tutti::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)))

#ifdef NDEBUG
#define TUTTI_DCHECK(condition, ...) static_cast<void>(0)
#else
#define TUTTI_DCHECK(condition, ...) TUTTI_CHECK(condition, __VA_ARGS__)
#endif

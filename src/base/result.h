// SPDX-License-Identifier: BSD-3-Clause
//
// Operating errors are values. Result<T> carries either a T or an Error that says what is wrong, where, and what to do.
// Invariant: an Error's text is one line a user can act on; codes are those of the public header, nothing else.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "tutti/tutti.h"

namespace tutti {

enum class Code : std::int32_t {
  argument = TUTTI_ERROR_ARGUMENT,
  type = TUTTI_ERROR_TYPE,
  op = TUTTI_ERROR_OP,
  comm = TUTTI_ERROR_COMM,
  state = TUTTI_ERROR_STATE,
  config = TUTTI_ERROR_CONFIG,
  version = TUTTI_ERROR_VERSION,
  bootstrap = TUTTI_ERROR_BOOTSTRAP,
  timeout = TUTTI_ERROR_TIMEOUT,
  device = TUTTI_ERROR_DEVICE,
  limit = TUTTI_ERROR_LIMIT,
  memory = TUTTI_ERROR_MEMORY,
  peer = TUTTI_ERROR_PEER,
  link = TUTTI_ERROR_LINK,
  mismatch = TUTTI_ERROR_MISMATCH,
  aborted = TUTTI_ERROR_ABORTED,
  unsupported = TUTTI_ERROR_UNSUPPORTED,
  system = TUTTI_ERROR_SYSTEM,
  truncated = TUTTI_ERROR_TRUNCATED,
};

// "argument", "type", ...: the public names of the codes, also for codes that came over the wire ("unknown" otherwise).
const char *code_name(std::int32_t code);

struct Error {
  Code code = Code::system;
  std::string text;
  int peer = -1;
  int sys_errno = 0;
  int wc_status = -1;
};

template <class T = void>
using Result = tl::expected<T, Error>;

// fail(Code::config, "TUTTI_X={} is not a number", value): what a function returning Result<T> returns.
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(Code code, fmt::format_string<Args...> format, Args &&...args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// "Connection refused (ECONNREFUSED)".
std::string errno_text(int number);

// fail_errno(Code::system, errno, "bind to {}", address): appends the errno's meaning and keeps its number.
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail_errno(Code code, int number, fmt::format_string<Args...> format,
                                               Args &&...args) {
  Error error{code, fmt::format(format, std::forward<Args>(args)...)};
  error.text += ": " + errno_text(number);
  error.sys_errno = number;
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace tutti

#define TUTTI_CONCAT_INNER(a, b) a##b
#define TUTTI_CONCAT(a, b) TUTTI_CONCAT_INNER(a, b)

// TUTTI_TRY(expr);            returns the error of a Result<void> from this function
// TUTTI_TRY(auto x, expr);    the same, else binds the value; expr may contain commas, x may not
#define TUTTI_TRY_VOID(expr)                                                        \
  do {                                                                              \
    if (auto tutti_try_result = (expr); !tutti_try_result) [[unlikely]]             \
      return ::tl::unexpected<::tutti::Error>(std::move(tutti_try_result).error()); \
  } while (false)
#define TUTTI_TRY_BIND(variable, ...) TUTTI_TRY_BIND_NAMED(TUTTI_CONCAT(tutti_try_, __COUNTER__), variable, __VA_ARGS__)
#define TUTTI_TRY_BIND_NAMED(name, variable, ...)                     \
  auto name = (__VA_ARGS__);                                          \
  if (!name) [[unlikely]]                                             \
    return ::tl::unexpected<::tutti::Error>(std::move(name).error()); \
  variable = std::move(*name)
#define TUTTI_TRY_PICK(a, b, c, d, e, f, g, h, i, j, k, l, macro, ...) macro
#define TUTTI_TRY(...)                                                                                           \
  TUTTI_TRY_PICK(__VA_ARGS__, TUTTI_TRY_BIND, TUTTI_TRY_BIND, TUTTI_TRY_BIND, TUTTI_TRY_BIND, TUTTI_TRY_BIND,    \
                 TUTTI_TRY_BIND, TUTTI_TRY_BIND, TUTTI_TRY_BIND, TUTTI_TRY_BIND, TUTTI_TRY_BIND, TUTTI_TRY_BIND, \
                 TUTTI_TRY_VOID, )                                                                               \
  (__VA_ARGS__)

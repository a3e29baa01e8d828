// SPDX-License-Identifier: BSD-3-Clause
#include "api/last_error.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <optional>

namespace tutti::api {
namespace {

std::optional<Error> &slot() {
  thread_local std::optional<Error> error;
  return error;
}

}  // namespace

tutti_result report(const Error &error) {
  slot() = error;
  return static_cast<tutti_result>(error.code);
}

tutti_result report_exception() {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return report({Code::memory, "out of memory"});
  } catch (const std::exception &error) {
    return report({Code::system, fmt::format("unexpected exception: {}", error.what())});
  }
}

const Error *last_error() { return slot() ? &*slot() : nullptr; }

}  // namespace tutti::api

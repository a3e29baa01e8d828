// SPDX-License-Identifier: BSD-3-Clause
#include "api/last_error.h"

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

const Error *last_error() { return slot() ? &*slot() : nullptr; }

}  // namespace tutti::api

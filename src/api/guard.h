// SPDX-License-Identifier: BSD-3-Clause
//
// What every C entry point begins and ends with.
#pragma once

#include <exception>
#include <new>

#include "api/last_error.h"
#include "base/result.h"
#include "tutti/tutti.h"

namespace tutti::api {

// Runs a body that returns Result<>; what must not escape becomes an error too.
template <class Body>
tutti_result guarded(Body &&body) noexcept {
  try {
    const Result<> result = body();
    return result ? TUTTI_SUCCESS : report(result.error());
  } catch (const std::bad_alloc &) {
    return report({Code::memory, "out of memory"});
  } catch (const std::exception &error) {
    return report({Code::system, fmt::format("unexpected exception: {}", error.what())});
  }
}

inline tl::unexpected<Error> no_comm(const char *function) {
  return fail(Code::comm, "{}: the communicator is null, freed, or was never made by tutti_init", function);
}

}  // namespace tutti::api

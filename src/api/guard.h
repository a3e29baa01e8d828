// SPDX-License-Identifier: BSD-3-Clause
//
// What every C entry point begins and ends with.
#pragma once

#include "api/last_error.h"
#include "base/hot.h"
#include "base/result.h"
#include "tutti/tutti.h"

namespace tutti::api {

// Runs a body that returns Result<>; what must not escape becomes an error too.
template <class Body>
TUTTI_HOT tutti_result guarded(Body &&body) noexcept {
  try {
    const Result<> result = body();
    return result ? TUTTI_SUCCESS : report(result.error());
  } catch (...) {
    return report_exception();
  }
}

inline tl::unexpected<Error> no_comm(const char *function) {
  return fail(Code::comm, "{}: the communicator is null, freed, or was never made by tutti_init", function);
}

}  // namespace tutti::api

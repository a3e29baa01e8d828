// SPDX-License-Identifier: BSD-3-Clause
//
// The caller's own allgather (tutti_bootstrap of the C interface, and so MPI) as a Bootstrap. What the struct says is
// checked here, once. The deadline cannot interrupt a caller's function: whoever supplies it bounds its waiting.
#pragma once

#include "bootstrap/bootstrap.h"
#include "tutti/tutti.h"

namespace tutti::bootstrap {

// Copies the struct; what `user` points to must live as long as the bootstrap. Error (argument) if size, rank, ranks or
// allgather cannot be right.
Result<std::unique_ptr<Bootstrap>> from_callback(const tutti_bootstrap &callback);

}  // namespace tutti::bootstrap

// SPDX-License-Identifier: BSD-3-Clause
//
// The instruction sets that kernels are compiled for, so that tests can run each that this CPU has. Not thread safe: it
// switches the process's choice for a moment.
#pragma once

#include <cstdint>
#include <vector>

#include "reduce/kernels.h"

namespace tutti::reduce {

std::vector<std::int64_t> runnable_targets();
const char *target_name(std::int64_t target);
// The kernel as a CPU without anything better than `target` would run it.
Kernel kernel_on(std::int64_t target, Type type, Op op);

}  // namespace tutti::reduce

// SPDX-License-Identifier: BSD-3-Clause
//
// The instruction sets that kernels are compiled for, so that tests can run each that this CPU has.
#pragma once

#include <cstdint>
#include <vector>

#include "reduce/kernels.h"

namespace tutti::reduce {

// The best first.
std::vector<std::int64_t> runnable_targets();
const char *target_name(std::int64_t target);

// While it lives, kernels.h gives what a CPU with nothing but `target` would run.
class OnTarget {
 public:
  explicit OnTarget(std::int64_t target);
  ~OnTarget();
  OnTarget(const OnTarget &) = delete;
  OnTarget &operator=(const OnTarget &) = delete;
};

}  // namespace tutti::reduce

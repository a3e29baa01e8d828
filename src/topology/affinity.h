// SPDX-License-Identifier: BSD-3-Clause
//
// The calling thread's CPU mask, for any number of CPUs.
#pragma once

#include <vector>

namespace tutti::topology {

// Ascending; empty if the kernel refuses to say.
std::vector<int> current_cpus();
// 0 or an errno.
int set_current_cpus(const std::vector<int> &cpus);

}  // namespace tutti::topology

// SPDX-License-Identifier: BSD-3-Clause
//
// The CPU quota of this process's control groups, version 1 or 2, also from inside a container. Read only.
#pragma once

#include <string>

namespace tutti::topology {

// CPUs' worth of time that the tightest of the groups around this process may use; 0 if none limits it. `root` stands
// before every path (tests give a directory).
double cgroup_cpu_quota(const std::string &root = "");

}  // namespace tutti::topology

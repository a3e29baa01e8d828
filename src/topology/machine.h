// SPDX-License-Identifier: BSD-3-Clause
//
// The machine as plain data, so that decisions about it are pure functions: what hwloc found, reduced to CPU numbers.
//
// Invariant: all lists of CPUs are ascending; nodes and cores hold permitted CPUs only, and none is empty.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

struct hwloc_topology;

namespace tutti::topology {

struct NumaNode {
  int id = 0;  // the kernel's number, which can have gaps
  std::vector<int> cpus;
};

struct Machine {
  // What the cgroup's cpuset leaves to this process: its mask if nobody binds it.
  std::vector<int> permitted;
  std::vector<NumaNode> nodes;  // with CPUs; those of high-bandwidth memory beside a node of the same CPUs are left out
  std::vector<std::vector<int>> cores;  // hardware threads of a core together
  int packages = 0;
  std::string cpu_model;  // of the first package
};

// Reduces a loaded hwloc topology, of this machine or a synthetic one.
Machine describe_machine(hwloc_topology *topology);

// "0-3,8".
std::string cpu_list_text(const std::vector<int> &cpus);
// Ascending lists only.
std::vector<int> common_cpus(const std::vector<int> &a, const std::vector<int> &b);
// The node of a CPU, -1 if unknown.
int node_of_cpu(const Machine &machine, int cpu);

}  // namespace tutti::topology

// SPDX-License-Identifier: BSD-3-Clause
//
// Where to bind a rank. Pure.
//
// A process is "bound by the launcher" if its mask is a proper part of what its cgroup permits: a container's or batch
// system's cpuset alone is no binding, since every rank of the job shares it. Such a binding is kept whatever TUTTI_PIN
// says; else ranks are spread in the order of their local rank, over the CPUs that the process came with.
#pragma once

#include "topology/machine.h"
#include "topology/topology.h"

namespace tutti::topology {

PinPlan plan_pin(const Machine &machine, const std::vector<int> &allowed, Pin pin, int local_rank, int local_ranks);

// A core beside those that plan_pin gives to ranks: there has to be one for each of them. Where the launcher binds, the
// last of the cores that it gave to this process, which has to have two.
Result<PinPlan> plan_spare_core(const Machine &machine, const std::vector<int> &allowed, int local_rank,
                                int local_ranks);

// Allowed CPUs, or fewer under a CPU quota (in CPUs, 0 for none): rounded up, at least one.
int usable_cpu_count(int allowed, double quota_cpus);

}  // namespace tutti::topology

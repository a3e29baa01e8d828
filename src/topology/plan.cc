// SPDX-License-Identifier: BSD-3-Clause
#include "topology/plan.h"

#include <algorithm>
#include <cmath>

namespace tutti::topology {
namespace {

// The part of each group that is allowed; groups without any are left out.
std::vector<std::vector<int>> allowed_parts(const std::vector<std::vector<int>> &groups,
                                            const std::vector<int> &allowed) {
  std::vector<std::vector<int>> parts;
  for (const std::vector<int> &group : groups)
    if (std::vector<int> part = common_cpus(group, allowed); !part.empty()) parts.push_back(std::move(part));
  return parts;
}

PinPlan plan_node(const Machine &machine, const std::vector<int> &allowed, int local_rank, int local_ranks) {
  std::vector<NumaNode> nodes;
  std::size_t cpus = 0;
  for (const NumaNode &node : machine.nodes) {
    std::vector<int> part = common_cpus(node.cpus, allowed);
    if (part.empty()) continue;
    cpus += part.size();
    nodes.push_back({node.id, std::move(part)});
  }
  if (nodes.size() < 2) return {{}, "not bound: the allowed CPUs are on one NUMA node"};
  // Ranks are laid evenly over the CPUs in node order, so that a node with more CPUs gets more ranks, neighbouring
  // ranks share a node, and few ranks are spread.
  std::size_t position = static_cast<std::size_t>(local_rank) * cpus / static_cast<std::size_t>(local_ranks);
  for (NumaNode &node : nodes) {
    if (position < node.cpus.size())
      return {std::move(node.cpus),
              fmt::format("NUMA node {} by local rank {} of {}", node.id, local_rank, local_ranks)};
    position -= node.cpus.size();
  }
  return {{}, "not bound: no NUMA node found"};  // not reached: position < cpus
}

PinPlan plan_core(const Machine &machine, const std::vector<int> &allowed, int local_rank, int local_ranks) {
  std::vector<std::vector<int>> cores = allowed_parts(machine.cores, allowed);
  const auto ranks = static_cast<std::size_t>(local_ranks);
  if (ranks > cores.size())
    return {{}, fmt::format("not bound: {} local ranks on {} cores would collide", local_ranks, cores.size())};
  const std::size_t core = static_cast<std::size_t>(local_rank) * cores.size() / ranks;
  return {std::move(cores[core]),
          fmt::format("core {} of {} by local rank {} of {}", core, cores.size(), local_rank, local_ranks)};
}

}  // namespace

PinPlan plan_pin(const Machine &machine, const std::vector<int> &allowed, Pin pin, int local_rank, int local_ranks) {
  if (pin == Pin::off) return {{}, "not bound: TUTTI_PIN=off"};
  if (local_rank < 0 || local_rank >= local_ranks)
    return {{}, fmt::format("not bound: local rank {} of {} makes no sense", local_rank, local_ranks)};
  if (common_cpus(allowed, machine.permitted).size() < machine.permitted.size())
    return {{}, fmt::format("bound by the launcher to CPUs {}", cpu_list_text(allowed))};
  PinPlan plan = pin == Pin::core ? plan_core(machine, allowed, local_rank, local_ranks)
                                  : plan_node(machine, allowed, local_rank, local_ranks);
  if (!plan.cpus.empty()) plan.numa_node = node_of_cpu(machine, plan.cpus.front());
  return plan;
}

Result<PinPlan> plan_spare_core(const Machine &machine, const std::vector<int> &allowed, int local_rank,
                                int local_ranks) {
  std::vector<std::vector<int>> cores = allowed_parts(machine.cores, allowed);
  if (common_cpus(allowed, machine.permitted).size() < machine.permitted.size()) {
    if (cores.size() < 2)
      return fail(Code::limit, "the launcher bound this process to CPUs {}, one core: a thread beside it needs another",
                  cpu_list_text(allowed));
    return PinPlan{std::move(cores.back()), "the last core that the launcher gave"};
  }
  if (local_rank < 0 || local_rank >= local_ranks)
    return fail(Code::limit, "local rank {} of {} makes no sense, so nobody knows which cores are spare", local_rank,
                local_ranks);
  const auto ranks = static_cast<std::size_t>(local_ranks);
  if (cores.size() < 2 * ranks)
    return fail(Code::limit, "{} ranks and as many threads beside them need {} cores, and there are {}", local_ranks,
                2 * ranks, cores.size());
  // plan_core gives the first of each rank's share.
  const std::size_t core = static_cast<std::size_t>(local_rank) * cores.size() / ranks + 1;
  return PinPlan{std::move(cores[core]), fmt::format("core {} of {}", core, cores.size())};
}

int usable_cpu_count(int allowed, double quota_cpus) {
  const int by_quota = quota_cpus > 0 && quota_cpus < allowed ? static_cast<int>(std::ceil(quota_cpus)) : allowed;
  return std::max(by_quota, 1);
}

}  // namespace tutti::topology

// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <hwloc.h>

#include <map>

#include "topology/plan.h"

namespace tutti::topology {
namespace {

Machine synthetic(const char *description) {
  hwloc_topology_t topology;
  EXPECT_EQ(hwloc_topology_init(&topology), 0);
  EXPECT_EQ(hwloc_topology_set_synthetic(topology, description), 0) << description;
  EXPECT_EQ(hwloc_topology_load(topology), 0);
  Machine machine = describe_machine(topology);
  hwloc_topology_destroy(topology);
  return machine;
}

// Two packages with a NUMA node each, four cores of two hardware threads in each node.
const char *const kTwoNodes = "package:2 [numa] core:4 pu:2";

TEST(Machine, IsReadFromHwloc) {
  const Machine machine = synthetic(kTwoNodes);
  EXPECT_EQ(machine.packages, 2);
  ASSERT_EQ(machine.nodes.size(), 2u);
  EXPECT_EQ(machine.cores.size(), 8u);
  EXPECT_EQ(cpu_list_text(machine.nodes[1].cpus), "8-15");
  EXPECT_EQ(cpu_list_text(machine.cores[1]), "2-3");
  EXPECT_EQ(node_of_cpu(machine, 9), 1);
  EXPECT_EQ(node_of_cpu(machine, 99), -1);
}

TEST(Machine, MemoryBesideANodeOfTheSameCpusIsNotASecondNode) {
  EXPECT_EQ(synthetic("package:2 [numa] [numa] core:2 pu:1").nodes.size(), 2u);
}

TEST(Plan, OffLeavesTheMaskAlone) {
  const Machine machine = synthetic(kTwoNodes);
  const PinPlan plan = plan_pin(machine, machine.permitted, Pin::off, 0, 2);
  EXPECT_TRUE(plan.cpus.empty());
  EXPECT_EQ(plan.numa_node, -1);
  EXPECT_NE(plan.reason.find("TUTTI_PIN=off"), std::string::npos);
}

TEST(Plan, case_36_ALaunchersBindingIsKeptUnderEverySetting) {
  const Machine machine = synthetic(kTwoNodes);
  for (const Pin pin : {Pin::automatic, Pin::core}) {
    const PinPlan plan = plan_pin(machine, {1}, pin, 0, 4);
    EXPECT_TRUE(plan.cpus.empty());
    EXPECT_EQ(plan.reason, "bound by the launcher to CPUs 1");
  }
}

TEST(Plan, case_36_AContainersCpusetIsNoBindingAndRanksStayInsideIt) {
  Machine machine = synthetic(kTwoNodes);
  // The cgroup leaves CPUs 6-9: hwloc shows only those.
  machine.permitted = {6, 7, 8, 9};
  for (NumaNode &node : machine.nodes) node.cpus = common_cpus(node.cpus, machine.permitted);
  const PinPlan first = plan_pin(machine, machine.permitted, Pin::automatic, 0, 2),
                second = plan_pin(machine, machine.permitted, Pin::automatic, 1, 2);
  EXPECT_EQ(cpu_list_text(first.cpus), "6-7");
  EXPECT_EQ(cpu_list_text(second.cpus), "8-9");
  EXPECT_EQ(first.numa_node, machine.nodes[0].id);
  EXPECT_EQ(second.numa_node, machine.nodes[1].id);
  const PinPlan core = plan_pin(machine, machine.permitted, Pin::core, 1, 2);
  EXPECT_EQ(cpu_list_text(core.cpus), "8-9");
  EXPECT_EQ(core.numa_node, machine.nodes[1].id);
}

TEST(Plan, UnboundRanksAreNarrowedToANodeInOrderOfTheirLocalRank) {
  const Machine machine = synthetic(kTwoNodes);
  for (const int ranks : {2, 4, 16, 33}) {
    std::map<std::string, int> used;
    std::string last;
    for (int rank = 0; rank < ranks; ++rank) {
      const PinPlan plan = plan_pin(machine, machine.permitted, Pin::automatic, rank, ranks);
      ++used[cpu_list_text(plan.cpus)];
      EXPECT_NE(plan.reason.find(fmt::format("local rank {} of {}", rank, ranks)), std::string::npos);
    }
    EXPECT_EQ(used.size(), 2u);
    EXPECT_LE(std::abs(used["0-7"] - used["8-15"]), 1) << ranks;
  }
  EXPECT_EQ(cpu_list_text(plan_pin(machine, machine.permitted, Pin::automatic, 1, 4).cpus), "0-7");
}

TEST(Plan, ANodeWithMoreCpusGetsMoreRanks) {
  Machine machine;
  machine.nodes = {{0, {0}}, {2, {1, 2, 3}}};
  machine.permitted = {0, 1, 2, 3};
  int on_large = 0;
  for (int rank = 0; rank < 4; ++rank)
    on_large += plan_pin(machine, machine.permitted, Pin::automatic, rank, 4).cpus.size() == 3;
  EXPECT_EQ(on_large, 3);
}

TEST(Plan, OneNodeLeavesTheMaskAloneAndSaysSo) {
  const Machine machine = synthetic("numa:1 core:2 pu:1");
  const PinPlan plan = plan_pin(machine, machine.permitted, Pin::automatic, 0, 2);
  EXPECT_TRUE(plan.cpus.empty());
  EXPECT_NE(plan.reason.find("one NUMA node"), std::string::npos) << plan.reason;
}

TEST(Plan, CoresAreSpreadAndNeverShared) {
  const Machine machine = synthetic(kTwoNodes);
  for (int ranks = 1; ranks <= 8; ++ranks) {
    std::map<int, int> users;
    for (int rank = 0; rank < ranks; ++rank) {
      const PinPlan plan = plan_pin(machine, machine.permitted, Pin::core, rank, ranks);
      EXPECT_EQ(plan.cpus.size(), 2u) << "both hardware threads of the core";
      for (const int cpu : plan.cpus) EXPECT_EQ(++users[cpu], 1) << "CPU " << cpu;
    }
  }
  EXPECT_EQ(cpu_list_text(plan_pin(machine, machine.permitted, Pin::core, 1, 2).cpus), "8-9") << "the other node";
}

TEST(Plan, case_36_MoreRanksThanCoresAreNotBoundToCores) {
  const Machine machine = synthetic(kTwoNodes);
  const PinPlan plan = plan_pin(machine, machine.permitted, Pin::core, 3, 9);
  EXPECT_TRUE(plan.cpus.empty());
  EXPECT_EQ(plan.reason, "not bound: 9 local ranks on 8 cores would collide");
}

TEST(Plan, ALocalRankOutOfRangeIsNotBound) {
  const Machine machine = synthetic(kTwoNodes);
  for (const auto &[rank, ranks] : {std::pair{-1, 4}, std::pair{4, 4}, std::pair{0, 0}})
    EXPECT_TRUE(plan_pin(machine, machine.permitted, Pin::core, rank, ranks).cpus.empty());
}

TEST(Plan, ASpareCoreIsNobodyElses) {
  const Machine machine = synthetic(kTwoNodes);
  for (const int ranks : {1, 2, 3, 4}) {
    std::map<int, int> users;
    for (int rank = 0; rank < ranks; ++rank) {
      const Result<PinPlan> spare = plan_spare_core(machine, machine.permitted, rank, ranks);
      ASSERT_TRUE(spare) << spare.error().text;
      for (const PinPlan &plan : {plan_pin(machine, machine.permitted, Pin::core, rank, ranks), *spare})
        for (const int cpu : plan.cpus) EXPECT_EQ(++users[cpu], 1) << "CPU " << cpu << ", " << ranks << " ranks";
    }
    EXPECT_EQ(users.size(), static_cast<std::size_t>(4 * ranks)) << "two cores of two CPUs for each rank";
  }
}

TEST(Plan, WithoutASpareCoreTheReasonIsTold) {
  const Machine machine = synthetic(kTwoNodes);
  const auto reason = [&](const std::vector<int> &allowed, int rank, int ranks) {
    const Result<PinPlan> spare = plan_spare_core(machine, allowed, rank, ranks);
    return spare ? "CPUs " + cpu_list_text(spare->cpus) : spare.error().text;
  };
  EXPECT_EQ(reason(machine.permitted, 0, 5), "5 ranks and as many threads beside them need 10 cores, and there are 8");
  EXPECT_EQ(reason({2, 3}, 0, 2),
            "the launcher bound this process to CPUs 2-3, one core: a thread beside it needs another");
  EXPECT_EQ(reason({2, 4, 5}, 1, 2), "CPUs 4-5") << "the last core that the launcher gave";
  for (const auto &[rank, ranks] : {std::pair{-1, 4}, std::pair{4, 4}, std::pair{0, 0}})
    EXPECT_NE(reason(machine.permitted, rank, ranks).find("makes no sense"), std::string::npos);
}

TEST(Plan, AQuotaCountsAsFewerCpus) {
  EXPECT_EQ(usable_cpu_count(8, 0), 8);
  EXPECT_EQ(usable_cpu_count(8, 1.5), 2);
  EXPECT_EQ(usable_cpu_count(8, 0.1), 1);
  EXPECT_EQ(usable_cpu_count(2, 16), 2);
}

}  // namespace
}  // namespace tutti::topology

// SPDX-License-Identifier: BSD-3-Clause
//
// What must hold on whatever machine the tests run.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "topology/affinity.h"
#include "topology/topology.h"

namespace tutti::topology {
namespace {

std::unique_ptr<Topology> load() {
  Result<std::unique_ptr<Topology>> topology = Topology::load();
  EXPECT_TRUE(topology) << topology.error().text;
  return std::move(*topology);
}

TEST(Topology, SeesTheMaskOfTheProcessAndLeavesItAsItWas) {
  const std::vector<int> before = current_cpus();
  const auto topology = load();
  EXPECT_EQ(topology->allowed_cpus(), before);
  EXPECT_EQ(current_cpus(), before);
  EXPECT_GE(topology->usable_cpus(), 1);
  EXPECT_LE(topology->usable_cpus(), static_cast<int>(before.size()));
  EXPECT_GE(topology->online_cpus(), static_cast<int>(before.size()));
  EXPECT_GE(topology->numa_nodes(), 1);
  EXPECT_NE(topology->describe().find("allowed CPUs"), std::string::npos);
}

TEST(Topology, UnknownDevicesHaveNoNode) {
  const auto topology = load();
  for (const char *name : {"no_such_device", "", "../../net", "software"})
    EXPECT_EQ(topology->numa_node_of_device(name), -1) << name;
}

TEST(Topology, PlansUseAllowedCpusOnly) {
  const auto topology = load();
  for (const Pin pin : {Pin::automatic, Pin::core, Pin::off})
    for (int rank = 0; rank < 3; ++rank)
      for (const int cpu : topology->plan(pin, rank, 3).cpus)
        EXPECT_TRUE(std::ranges::binary_search(topology->allowed_cpus(), cpu));
}

TEST(Topology, MemoryIsPlacedOrLeftAlone) {
  const auto topology = load();
  constexpr std::size_t kBytes = 1 << 16;
  void *memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_FALSE(topology->place_memory(memory, kBytes, -1));
  EXPECT_FALSE(topology->place_memory(memory, kBytes, 1000));
  topology->place_memory(memory, kBytes, topology->numa_node_of_process());
  static_cast<char *>(memory)[kBytes - 1] = 1;  // still usable
  munmap(memory, kBytes);
}

TEST(Binding, BindsAndGivesTheCallersMaskBack) {
  const std::vector<int> before = current_cpus();
  {
    Binding binding = Binding::apply({{before.back()}, "test"});
    EXPECT_TRUE(binding.bound());
    EXPECT_EQ(current_cpus(), std::vector<int>{before.back()});
    const Binding moved = std::move(binding);
    EXPECT_FALSE(binding.bound());
    EXPECT_EQ(current_cpus(), std::vector<int>{before.back()});
  }
  EXPECT_EQ(current_cpus(), before);
}

TEST(Binding, case_36_AFailureIsAWarningAndChangesNothing) {
  const std::vector<int> before = current_cpus();
  testing::internal::CaptureStderr();
  {
    const Binding binding = Binding::apply({{60000}, "a CPU that does not exist"});
    EXPECT_FALSE(binding.bound());
  }
  EXPECT_NE(testing::internal::GetCapturedStderr().find("60000"), std::string::npos);
  EXPECT_EQ(current_cpus(), before);
}

TEST(Binding, AnEmptyPlanIsNoBinding) {
  const std::vector<int> before = current_cpus();
  EXPECT_FALSE(Binding::apply({{}, "none"}).bound());
  EXPECT_EQ(current_cpus(), before);
}

}  // namespace
}  // namespace tutti::topology

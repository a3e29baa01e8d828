// SPDX-License-Identifier: BSD-3-Clause
//
// The cost model against what is known otherwise: the verifier's closed forms of volume, textbook times, the lower
// bound, and, where one rank stands for all, against the run of all of them.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "collectives/cost/bound.h"
#include "collectives/cost/estimate.h"
#include "collectives/form.h"

namespace tutti::collectives {
namespace {

const cost::Machine kMachine;

void for_each_call(std::int32_t most_ranks, const std::function<void(const Algorithm &, const Parameters &)> &use) {
  for (const Algorithm &algorithm : algorithms())
    for (const std::int32_t radix : algorithm.radices)
      for (std::int32_t ranks = 1; ranks <= most_ranks; ++ranks) {
        const Parameters parameters{
            .collective = algorithm.collective, .ranks = ranks, .root = ranks / 2, .radix = radix};
        SCOPED_TRACE(testing::Message() << collective_name(algorithm.collective) << ' ' << algorithm.name << ", "
                                        << ranks << " ranks, radix " << radix);
        if (algorithm.supports(parameters)) use(algorithm, parameters);
        if (testing::Test::HasFatalFailure()) return;
      }
}

TEST(Cost, VolumeIsTheClosedForm) {
  for_each_call(33, [](const Algorithm &algorithm, const Parameters &parameters) {
    const std::uint64_t blocks = algorithm.build(parameters).blocks;
    const std::uint64_t vector =
        algorithm.build(parameters).partition == Partition::even ? blocks : std::uint64_t(parameters.ranks);
    // Four elements of four bytes a block; a barrier is eight always.
    const cost::Estimate estimate = cost::estimate(algorithm, parameters, vector * 16, 4, kMachine);
    const double block = parameters.collective == Collective::barrier ? 8 : 16;
    ASSERT_EQ(estimate.refusal, "");
    ASSERT_EQ(estimate.all_bytes, double(algorithm.volume_blocks(parameters)) * block);
    ASSERT_GE(estimate.bytes * parameters.ranks, estimate.all_bytes);
  });
}

TEST(Cost, NothingIsFasterThanTheBound) {
  for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{1} << 14, std::uint64_t{1} << 20})
    for_each_call(20, [&](const Algorithm &algorithm, const Parameters &parameters) {
      const cost::Estimate estimate = cost::estimate(algorithm, parameters, bytes, 1, kMachine);
      // Equal blocks are of whole elements: as many bytes as the ranks share alike.
      const double whole = algorithm.build(parameters).partition == Partition::even
                               ? double(bytes)
                               : double(bytes - bytes % parameters.ranks);
      ASSERT_GE(estimate.seconds * (1 + 1e-9), cost::bound(parameters, whole, kMachine).seconds());
    });
}

TEST(Cost, OneRankStandsForAllWhereAllAreAlike) {
  int mirrored = 0;
  for_each_call(70, [&](const Algorithm &algorithm, const Parameters &parameters) {
    if (parameters.ranks < 2) return;
    for (const std::uint64_t bytes : {std::uint64_t(parameters.ranks) * 4, std::uint64_t(parameters.ranks) << 12,
                                      std::uint64_t(parameters.ranks) << 16}) {
      const cost::Estimate all = cost::estimate(algorithm, parameters, bytes, 4, kMachine);
      const cost::Estimate one = cost::estimate(algorithm, parameters, bytes, 4, kMachine, {.all_ranks = 0});
      ASSERT_TRUE(all.all_ranks);
      if (one.all_ranks) continue;
      ++mirrored;
      ASSERT_EQ(one.rounds, all.rounds);
      if (parameters.ranks <= 64) ASSERT_EQ(one.messages, all.messages);
      else ASSERT_LE(one.messages, all.messages);
      ASSERT_EQ(one.bytes, all.bytes);
      ASSERT_EQ(one.all_bytes, all.all_bytes);
      // Rank 0 has no stretch that the end of the vector cuts in two, and gets its messages in the order of its own.
      ASSERT_LE(one.seconds / all.seconds, 1.1);
      ASSERT_GE(one.seconds / all.seconds, 0.67);
    }
  });
  EXPECT_GT(mirrored, 200);
}

double microseconds(Collective collective, std::string_view name, Parameters parameters, std::uint64_t bytes,
                    const cost::Machine &machine = kMachine) {
  parameters.collective = collective;
  return cost::estimate(*find_algorithm(collective, name), parameters, bytes, 1, machine).seconds * 1e6;
}

TEST(Cost, SmallMessagesTakeTheirTextbookTimes) {
  cost::Machine machine{.network = {.latency_s = 1e-6, .gap_s = 0.1e-6, .bytes_per_s = 1e15}, .reduced_per_s = 0};
  const auto allreduce = [&](const char *name, Parameters parameters) {
    return microseconds(Collective::allreduce, name, parameters, 8, machine);
  };
  EXPECT_NEAR(allreduce("recursive_doubling", {.ranks = 64}), 6, 1e-3);
  // Each round: a latency, and a gap for each further message.
  EXPECT_NEAR(allreduce("recursive_multiplying", {.ranks = 64, .radix = 8}), 2 * (1 + 6 * 0.1), 1e-3);
  EXPECT_NEAR(allreduce("direct", {.ranks = 16}), 1 + 14 * 0.1, 1e-3);
  EXPECT_NEAR(microseconds(Collective::broadcast, "knomial", {.ranks = 16, .radix = 16}, 8, machine), 1 + 14 * 0.1,
              1e-3);
  EXPECT_NEAR(microseconds(Collective::barrier, "dissemination", {.ranks = 1000, .radix = 2}, 0, machine), 10, 0.01);
  EXPECT_NEAR(cost::bound({.ranks = 64}, 8, machine).seconds() * 1e6, 2.8, 1e-3);
  EXPECT_NEAR(cost::bound({.ranks = 1024}, 8, machine).seconds() * 1e6, 4.4, 1e-3);
}

TEST(Cost, LargeMessagesTakeTheirTextbookTimes) {
  const std::uint64_t bytes = 100'000'000;
  const double m = double(bytes) / 12e9 * 1e6;
  // Reductions overlap with what arrives.
  EXPECT_NEAR(microseconds(Collective::allreduce, "ring", {.ranks = 10}, bytes) / (1.8 * m), 1, 0.02);
  EXPECT_NEAR(microseconds(Collective::allreduce, "circulant", {.ranks = 10}, bytes) / (1.8 * m), 1, 0.15);
  EXPECT_NEAR(microseconds(Collective::broadcast, "chain", {.ranks = 10}, bytes) / m, 1, 0.02) << "a pipeline";
  EXPECT_NEAR(microseconds(Collective::broadcast, "knomial", {.ranks = 2}, bytes) / m, 1, 0.02);
  EXPECT_NEAR(microseconds(Collective::broadcast, "knomial", {.ranks = 16, .radix = 2}, bytes) / (4 * m), 1, 0.02);
}

TEST(Cost, AWindowMakesRoundsOfMessages) {
  for (const std::int32_t ranks : {2, 9, 33, 64})
    for (const std::int32_t window : {1, 3, 8, 100}) {
      const Parameters parameters{.collective = Collective::alltoall, .ranks = ranks, .radix = window};
      const cost::Estimate estimate = cost::estimate(*find_algorithm(Collective::alltoall, "throttled"), parameters,
                                                     std::uint64_t(ranks) * 8, 8, kMachine);
      EXPECT_EQ(estimate.rounds, (ranks - 1 + window - 1) / window) << ranks << " ranks, window " << window;
      EXPECT_EQ(estimate.messages, std::uint64_t(ranks - 1));
    }
}

TEST(Cost, RanksOfAHostShareItsPort) {
  // Everyone sends its right neighbour as much; what leaves a host leaves it one after the other.
  std::vector<std::int32_t> blocks, round_robin;
  for (std::int32_t rank = 0; rank < 16; ++rank) blocks.push_back(rank / 4), round_robin.push_back(rank % 4);
  const std::uint64_t bytes = 64 << 20;
  const double apart = microseconds(Collective::allreduce, "ring", {.ranks = 16, .hosts = round_robin}, bytes);
  const double together = microseconds(Collective::allreduce, "ring", {.ranks = 16, .hosts = blocks}, bytes);
  EXPECT_NEAR(apart / together, 4 * 10.0 / 12, 0.4);
}

TEST(Cost, AHundredThousandRanksOfLogarithmicSteps) {
  for (const Algorithm &algorithm : algorithms()) {
    const bool logarithmic = algorithm.name == "recursive_doubling" ||
                             (algorithm.name == "circulant" && !form_of(algorithm.collective).rooted) ||
                             algorithm.name == "dissemination" || algorithm.name == "knomial";
    if (!logarithmic || form_of(algorithm.collective).displaced) continue;
    const Parameters parameters{
        .collective = algorithm.collective, .ranks = 100'000, .radix = algorithm.radices.front()};
    const cost::Estimate estimate = cost::estimate(algorithm, parameters, 100'000 * 8, 8, kMachine);
    EXPECT_EQ(estimate.refusal, "") << algorithm.name;
    EXPECT_GE(estimate.rounds, 16) << algorithm.name;
    EXPECT_LE(estimate.rounds, 2 * 17) << algorithm.name;
  }
}

TEST(Cost, WhatIsTooMuchIsSaidNotBuilt) {
  const Parameters parameters{.collective = Collective::scatter, .ranks = 100};
  const cost::Estimate estimate =
      cost::estimate(*find_algorithm(Collective::scatter, "direct"), parameters, 400, 4, kMachine, {0, 100});
  EXPECT_NE(estimate.refusal.find("too many to build"), std::string::npos);
  const cost::Estimate by_host =
      cost::estimate(*find_algorithm(Collective::allreduce, "leaders"), {.ranks = 10'001}, 8, 4, kMachine);
  EXPECT_NE(by_host.refusal.find("up to 10000 ranks"), std::string::npos);
}

}  // namespace
}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// Which earlier steps a step follows: exactly those whose ranges conflict with its own, and in what order the messages
// of a peer match.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/plan.h"
#include "steps.h"

namespace tutti::exec {
namespace {

Plan compile(std::vector<Step> steps, bool in_place = false) {
  return Plan::compile({.blocks = 4,
                        .scratch_vectors = 2,
                        .steps = std::move(steps),
                        .in_place = in_place ? collectives::InPlace::same : collectives::InPlace::none,
                        .input_blocks = 4,
                        .output_blocks = 4},
                       mesh::Group::world(4));
}

std::vector<std::uint32_t> followed(const Plan &plan, std::uint32_t step) {
  std::vector<std::uint32_t> all;
  for (const Edge &edge : plan.edges(plan.steps()[step])) all.push_back(edge.step);
  std::ranges::sort(all);
  return all;
}

using Steps = std::vector<std::uint32_t>;

TEST(Plan, AReadFollowsTheWriteOfItsBlocks) {
  const Plan plan = compile({recv(1, out(0)), recv(1, out(1)), send(2, out(1))});
  EXPECT_EQ(followed(plan, 2), Steps{1});
  const Edge edge = plan.edges(plan.steps()[2])[0];
  EXPECT_TRUE(edge.earlier_target);
  EXPECT_FALSE(edge.later_target);
}

TEST(Plan, AWriteFollowsTheReadsOfItsBlocks) {
  const Plan plan = compile({send(1, out(0)), send(2, out(0, 2)), send(3, out(2)), recv(1, out(0))});
  EXPECT_EQ(followed(plan, 3), (Steps{0, 1}));
  EXPECT_FALSE(plan.edges(plan.steps()[3])[0].earlier_target);
  EXPECT_TRUE(plan.edges(plan.steps()[3])[0].later_target);
}

TEST(Plan, AWriteFollowsTheWriteOfItsBlocks) {
  const Plan plan = compile({recv(1, out(0, 4)), recv(2, out(3))});
  EXPECT_EQ(followed(plan, 1), Steps{0});
}

TEST(Plan, ReadsDoNotFollowEachOther) {
  const Plan plan = compile({send(1, out(0)), send(2, out(0)), copy(out(0), scratch(0))});
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(followed(plan, i).empty()) << i;
}

TEST(Plan, DisjointBlocksAndDifferentBuffersDoNotConflict) {
  const Plan plan =
      compile({recv(1, out(0)), recv(1, scratch(0)), recv(1, scratch(4)), recv(1, out(1)), send(1, in(0))});
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_TRUE(followed(plan, i).empty()) << i;
}

TEST(Plan, InPlaceInputAndOutputAreOneBuffer) {
  const std::vector<Step> steps = {send(1, in(2)), recv(1, out(2))};
  EXPECT_TRUE(followed(compile(steps, false), 1).empty());
  EXPECT_EQ(followed(compile(steps, true), 1), Steps{0});
}

TEST(Plan, InPlaceTheOwnBlockHasTheNameOfTheOutputs) {
  const Plan plan = Plan::compile({.blocks = 4,
                                   .steps = {send(1, in(0)), recv(1, out(2)), recv(1, out(3))},
                                   .in_place = collectives::InPlace::own_of_output,
                                   .own = 3,
                                   .output_blocks = 4},
                                  mesh::Group::world(4));
  EXPECT_EQ(plan.steps()[0].step.source, out(3));
  EXPECT_TRUE(followed(plan, 1).empty());
  EXPECT_EQ(followed(plan, 2), Steps{0});
}

TEST(Plan, AnOutputAtTheTopOfTheInputFollowsWhateverReadsTheInput) {
  const Plan plan =
      Plan::compile({.blocks = 4,
                     .scratch_vectors = 1,
                     .steps = {send(1, in(0)), send(2, in(3)), send(3, scratch(0)), copy(scratch(1), out(0))},
                     .in_place = collectives::InPlace::top_of_input,
                     .input_blocks = 4},
                    mesh::Group::world(4));
  EXPECT_EQ(followed(plan, 3), (Steps{0, 1}));
}

TEST(Plan, AStepThatReadsAndWritesOneRangeDoesNotFollowItself) {
  const Step reduce = {.kind = Kind::recv_reduce, .peer = 1, .source = out(0), .target = out(0)};
  const Plan plan = compile({recv(1, out(0)), reduce, reduce});
  EXPECT_EQ(followed(plan, 1), (Steps{0, 0})) << "by its source and by its target";
  EXPECT_EQ(std::ranges::count(followed(plan, 2), 2u), 0);
  EXPECT_EQ(std::ranges::count(followed(plan, 2), 1u), 2);
}

TEST(Plan, AReduceFollowsWhatWroteEitherOfItsRanges) {
  const Step reduce = {.kind = Kind::reduce, .source = scratch(0), .target = out(0)};
  const Plan plan = compile({recv(1, scratch(0)), recv(2, out(0)), reduce});
  EXPECT_EQ(followed(plan, 2), (Steps{0, 1}));
}

TEST(Plan, OlderConflictsAreCoveredByTheStepsBetween) {
  // 2 follows 1, which follows 0: no edge of its own to 0 on that block.
  const Plan plan = compile({recv(1, out(0)), recv(1, out(0)), recv(1, out(0, 2))});
  EXPECT_EQ(followed(plan, 2), Steps{1});
  // With another block that only 0 wrote there is one.
  EXPECT_EQ(followed(compile({recv(1, out(0, 2)), recv(1, out(0)), send(1, out(0, 2))}), 2), (Steps{0, 1}));
}

TEST(Plan, ASendFollowsTheStepThatItNamesToItsEnd) {
  Step last = send(3, in(1));
  last.after = 1;
  const Plan plan = compile({send(1, in(0)), recv(2, out(0)), last});
  EXPECT_EQ(followed(plan, 2), Steps{1});
  EXPECT_TRUE(plan.edges(plan.steps()[2])[0].whole);
  EXPECT_TRUE(std::ranges::equal(plan.successors(plan.steps()[1]), Steps{2}));
}

TEST(Plan, SuccessorsAreTheEdgesTurnedAround) {
  const Plan plan = compile({recv(1, out(0)), send(2, out(0)), send(3, out(0)), recv(1, out(0))});
  for (std::uint32_t step = 0; step < 4; ++step)
    for (std::uint32_t later = 0; later < 4; ++later) {
      const auto successors = plan.successors(plan.steps()[step]);
      EXPECT_EQ(std::ranges::count(successors, later) != 0, std::ranges::count(followed(plan, later), step) != 0)
          << step << " " << later;
      EXPECT_LE(std::ranges::count(successors, later), 1);
    }
}

TEST(Plan, MessagesOfAPeerMatchInProgramOrder) {
  const Plan plan =
      compile({send(1, in(0)), recv(2, out(0)), send(2, in(0)), recv(1, out(1)), send(1, in(1)), recv(1, out(2))});
  ASSERT_EQ(plan.peers().size(), 2u);
  const PeerPlan &one = plan.peers()[static_cast<std::size_t>(plan.slot_of(1))];
  EXPECT_TRUE(std::ranges::equal(plan.sends(one), Steps{0, 4}));
  EXPECT_TRUE(std::ranges::equal(plan.receives(one), Steps{3, 5}));
  EXPECT_EQ(plan.slot_of(3), -1);
}

}  // namespace
}  // namespace tutti::exec

// SPDX-License-Identifier: BSD-3-Clause
//
// Every algorithm over the software device with ranks as threads, against results computed here.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "collectives/form.h"
#include "support/collective_call.h"
#include "support/layouts.h"
#include "support/world_of_threads.h"

namespace tutti::test {
namespace {

RankSetup with_algorithm(const std::string &algorithm) {
  RankSetup setup{default_config(), {}};
  setup.config.algo = algorithm;
  return setup;
}

// Sanitizers look at every byte: the paths are the same with less of them.
std::size_t largest(int ranks) {
#if defined(__SANITIZE_THREAD__)
  return ranks > 2 ? 1000 : 5000;
#elif defined(__SANITIZE_ADDRESS__)
  return ranks > 4 ? 5000 : 100'003;
#else
  return ranks > 8 ? 100'003 : 400'009;
#endif
}

// Elements of a vector, or of a block where the vector has one for each rank.
std::vector<std::size_t> counts(collectives::Collective collective, int ranks) {
  if (collective == collectives::Collective::barrier) return {1};
  const auto p = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> all = {0, 1, p - 1, p, p + 1};
  const bool vector = collectives::form_of(collective).partition == collectives::Partition::even;
  for (const std::size_t count : {1000, 5000, 100'003, 400'009})
    if (count <= largest(ranks)) all.push_back(vector ? count : count / p);
  return all;
}

std::int64_t element(int rank, std::size_t i) { return static_cast<std::int64_t>(i * 7 + 3) * (rank + 1); }
std::int64_t sum_of_elements(int ranks, std::size_t i) {
  return static_cast<std::int64_t>(i * 7 + 3) * ranks * (ranks + 1) / 2;
}

void put(std::byte *to, reduce::Type, std::int64_t value) { std::memcpy(to, &value, sizeof(value)); }

void check(Rank &rank, const Problem &problem) {
  ModelCall call(problem, rank.rank(), reduce::Type::int64, reduce::Op::sum, put);
  const Result<> result = rank.run(call.call());
  ASSERT_TRUE(result) << result.error().text;
  ASSERT_EQ(call.flaw(), "") << rank.config().algo << ", count " << problem.count << ", root " << problem.root
                             << ", rank " << rank.rank() << (problem.in_place ? ", in place" : "")
                             << (problem.gaps ? ", with gaps" : "");
}

void check_barrier(Rank &rank, std::atomic<int> &entered, int round) {
  const std::uint8_t here = 1;
  std::uint8_t all = 0;
  ++entered;
  const Result<> result =
      rank.run({.shape = {.collective = collectives::Collective::barrier, .op = reduce::Op::max, .count = 1},
                .input = &here,
                .output = &all});
  ASSERT_TRUE(result) << result.error().text;
  ASSERT_GE(entered, rank.ranks() * (round + 1)) << "rank " << rank.rank() << " left before all had entered";
}

void check_all(Rank &rank, collectives::Collective collective) {
  const collectives::Form &form = collectives::form_of(collective);
  for (const std::size_t count : counts(collective, rank.ranks()))
    for (const int root : {0, rank.ranks() - 1})
      for (const bool in_place : {false, true})
        for (const bool gaps : {false, true}) {
          if ((root != 0 && !form.rooted) || (gaps && !form.displaced)) continue;
          // Large ones once or twice: what places and roots change shows with small ones.
          const bool large = count * static_cast<std::size_t>(rank.ranks()) > 20'000;
          if (large && ((form.rooted && root == 0 && rank.ranks() > 1) || (form.displaced && gaps != in_place)))
            continue;
          check(rank, {.collective = collective,
                       .ranks = rank.ranks(),
                       .root = root,
                       .count = count,
                       .in_place = in_place,
                       .gaps = gaps,
                       .give = element,
                       .fold = sum_of_elements});
          if (testing::Test::HasFatalFailure()) return;
        }
}

class EveryAlgorithm : public testing::TestWithParam<int> {};

TEST_P(EveryAlgorithm, case_46_GivesTheRightResultForEveryCountAndTouchesNothingElse) {
  const int ranks = GetParam();
  for (const collectives::Algorithm &algorithm : collectives::algorithms()) {
    if (!algorithm.supports({.collective = algorithm.collective, .ranks = ranks})) continue;
    const std::string choice = fmt::format("{}:{}", collectives::collective_name(algorithm.collective), algorithm.name);
    SCOPED_TRACE(choice);
    auto world = bring_up(ranks, [&](int) { return with_algorithm(choice); });
    ASSERT_TRUE(world) << world.error().text;
    std::atomic<int> entered{0};
    on_each(*world, [&](Rank &rank) {
      if (algorithm.collective == collectives::Collective::barrier)
        for (int round = 0; round < 100 && !testing::Test::HasFatalFailure(); ++round)
          check_barrier(rank, entered, round);
      else check_all(rank, algorithm.collective);
    });
    for (auto &rank : *world) rank->engine().mesh().check();
    if (testing::Test::HasFatalFailure()) return;
  }
}

// No override: what is selected for small and for large vectors, too.
TEST(ByHost, EveryAlgorithmGivesTheRightResultForEveryLayout) {
#if defined(__SANITIZE_THREAD__)
  for (const int ranks : {4})  // the same code for more takes a minute
#else
  for (const int ranks : {4, 7, 10})
#endif
    for (const Layout &layout : layouts(ranks))
      for (const collectives::Algorithm &algorithm : collectives::algorithms()) {
        if (!algorithm.by_host || algorithm.collective == collectives::Collective::barrier) continue;
        const std::string choice =
            fmt::format("{}:{}", collectives::collective_name(algorithm.collective), algorithm.name);
        // Leaders are the table's choice for few bytes; so the other algorithm's turn is that of no override.
        const bool free = algorithm.collective == collectives::Collective::allreduce && algorithm.name == "leaders";
        SCOPED_TRACE(testing::Message() << (free ? "chosen" : choice) << ", hosts " << layout.name);
        auto world = bring_up(ranks, [&](int) {
          RankSetup setup = with_algorithm(free ? "" : choice);
          setup.hosts = layout.hosts;
          return setup;
        });
        ASSERT_TRUE(world) << world.error().text;
        on_each(*world, [&](Rank &rank) {
          for (const std::size_t count : {1, ranks + 1, 20'000})
            for (const bool in_place : {false, true})
              check(rank, {.collective = algorithm.collective,
                           .ranks = ranks,
                           .root = algorithm.collective == collectives::Collective::allreduce ? 0 : ranks / 2,
                           .count = count,
                           .in_place = in_place,
                           .give = element,
                           .fold = sum_of_elements});
        });
        if (testing::Test::HasFatalFailure()) return;
      }
}

TEST(ByHost, WhereSeveralRanksShareHostsEachLaneHasItsOwnLinks) {
  auto world = bring_up(4, [&](int) {
    RankSetup setup = with_algorithm("");
    setup.hosts = {0, 0, 1, 1};
    return setup;
  });
  ASSERT_TRUE(world) << world.error().text;
  on_each(*world, [&](Rank &rank) {
    check(rank, {.collective = collectives::Collective::allreduce,
                 .ranks = 4,
                 .count = 20'000,
                 .give = element,
                 .fold = sum_of_elements});
  });
  for (auto &rank : *world)
    for (const mesh::LinkView &link : rank->engine().mesh().view_links()) {
      const bool of_host = link.peer / 2 == rank->rank() / 2, of_lane = link.peer % 2 == rank->rank() % 2;
      EXPECT_EQ(link.sent > 0, of_host || of_lane) << rank->rank() << " to " << link.peer;
    }
}

TEST(ByHost, ACommunicatorOfSomeRanksKnowsWhereTheseAre) {
  auto world = bring_up(6, [&](int) {
    RankSetup setup = with_algorithm("");
    setup.hosts = {0, 1, 0, 1, 2, 2};
    return setup;
  });
  ASSERT_TRUE(world) << world.error().text;
  const std::vector<std::int32_t> members = {0, 2, 1, 3};  // two hosts of two
  on_each(*world, [&](Rank &rank) {
    if (rank.rank() > 3) return;
    comm::Engine &engine = rank.engine();
    comm::Communicator some(engine.mesh(), mesh::Group::of(members, 6), {.id = 1}, rank.communicator().setting());
    engine.add(some);
    const Problem problem = {.collective = collectives::Collective::allreduce,
                             .ranks = 4,
                             .count = 20'000,
                             .give = element,
                             .fold = sum_of_elements};
    ModelCall call(problem, some.rank(), reduce::Type::int64, reduce::Op::sum, put);
    comm::Lock none;
    const Result<> result = engine.run(some, call.call(), none);
    EXPECT_TRUE(result) << result.error().text;
    EXPECT_EQ(call.flaw(), "");
    engine.remove(some);
  });
  const auto sent = [&](std::size_t from, int to) {
    for (const mesh::LinkView &link : (*world)[from]->engine().mesh().view_links())
      if (link.peer == to) return link.sent;
    return 0U;
  };
  EXPECT_GT(sent(0, 2), 0U) << "of its host";
  EXPECT_GT(sent(0, 1), 0U) << "of its lane";
  EXPECT_EQ(sent(0, 3), 0U);
  EXPECT_EQ(sent(1, 2), 0U);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
INSTANTIATE_TEST_SUITE_P(Ranks, EveryAlgorithm,
                         testing::Values(1, 2, 3, 5, 8));  // the same code for more takes minutes
#else
INSTANTIATE_TEST_SUITE_P(Ranks, EveryAlgorithm, testing::Values(1, 2, 3, 4, 5, 7, 8, 16, 32));
#endif

}  // namespace
}  // namespace tutti::test

// SPDX-License-Identifier: BSD-3-Clause
//
// Every algorithm that there is, proved for every number of ranks, root, radix and mode that it supports.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "collectives/form.h"
#include "collectives/hosts.h"
#include "collectives/verify/verify.h"
#include "support/layouts.h"

namespace tutti::collectives {
namespace {

bool is_prime(std::int32_t number) {
  for (std::int32_t divisor = 2; divisor * divisor <= number; ++divisor)
    if (number % divisor == 0) return false;
  return number > 1;
}

// A rank that opens p - 1 messages at once makes the proof cost the third power of p. A ring of 1024 ranks is proved
// once, as an allreduce.
std::int32_t most_ranks(const Algorithm &algorithm) {
  if (algorithm.name == "direct" || algorithm.name == "throttled") return 131;
  if (algorithm.by_host) return 131;  // here every rank is a host by itself: what other layouts do is proved below
  return algorithm.name == "ring" && algorithm.collective != Collective::allreduce ? 512 : 1024;
}

// 1 to 64, then the primes to 257 and the powers of two to 1024.
std::vector<std::int32_t> rank_counts(const Algorithm &algorithm) {
  std::vector<std::int32_t> counts;
  for (std::int32_t ranks = 1; ranks <= most_ranks(algorithm); ++ranks)
    if (ranks <= 64 || (ranks <= 257 && is_prime(ranks)) || (ranks & (ranks - 1)) == 0) counts.push_back(ranks);
  return counts;
}

// All up to 64 ranks; above, the ends, the middle, and one on either side of each.
std::vector<std::int32_t> roots(const Algorithm &algorithm, std::int32_t ranks) {
  if (!form_of(algorithm.collective).rooted) return {0};
  // Pipelines of many blocks, which count ranks from the root.
  if (algorithm.name == "circulant" && ranks > 8) return {0, ranks / 2, ranks - 1};
  if (ranks > 64) return {0, 1, ranks / 2 - 1, ranks / 2, ranks / 2 + 1, ranks - 2, ranks - 1};
  std::vector<std::int32_t> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string name_of(const testing::TestParamInfo<Algorithm> &row) {
  return std::string(collective_name(row.param.collective)) + "_" + std::string(row.param.name);
}

class Proof : public testing::TestWithParam<Algorithm> {};

TEST_P(Proof, HoldsForEveryNumberOfRanksRootRadixAndMode) {
  const Algorithm &algorithm = GetParam();
  int proofs = 0;
  for (const std::int32_t ranks : rank_counts(algorithm))
    for (const std::int32_t radix : algorithm.radices)
      for (const std::int32_t root : roots(algorithm, ranks))
        for (const bool in_place : {false, true}) {
          // The largest once: nothing depends on roots and places there that did not before.
          if (ranks > 512 && (root != roots(algorithm, ranks).back() || !in_place)) continue;
          const Parameters parameters{
              .collective = algorithm.collective, .ranks = ranks, .root = root, .in_place = in_place, .radix = radix};
          if (!algorithm.supports(parameters)) continue;
          ASSERT_EQ(verify::verify(algorithm, parameters), "");
          ++proofs;
        }
  // Direct, the narrowest, serves 64 ranks.
  EXPECT_GE(proofs, 2 * 64);
}

std::vector<Algorithm> those_by_host() {
  std::vector<Algorithm> rows;
  for (const Algorithm &algorithm : algorithms())
    if (algorithm.by_host) rows.push_back(algorithm);
  return rows;
}

class ProofByHost : public testing::TestWithParam<Algorithm> {};

TEST_P(ProofByHost, HoldsForEveryLayout) {
  const Algorithm &algorithm = GetParam();
  for (const std::int32_t ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 21, 24, 27, 32, 37, 64, 96})
    for (const test::Layout &layout : test::layouts(ranks))
      for (const std::int32_t radix : algorithm.radices)
        for (const std::int32_t root : roots(algorithm, ranks <= 17 || ranks > 64 ? ranks : 65)) {
          if (root >= ranks) continue;
          for (const bool in_place : {false, true}) {
            const Parameters parameters{.collective = algorithm.collective,
                                        .ranks = ranks,
                                        .root = root,
                                        .in_place = in_place,
                                        .radix = radix,
                                        .hosts = layout.hosts};
            ASSERT_TRUE(algorithm.supports(parameters));
            ASSERT_EQ(verify::verify(algorithm, parameters), "") << layout.name;
          }
        }
}

INSTANTIATE_TEST_SUITE_P(Schedules, ProofByHost, testing::ValuesIn(those_by_host()), name_of);

// Blocks that each host sends to others, and that it gets from them; and those of the whole vector.
struct Crossing {
  std::map<std::int32_t, std::uint64_t> out, in;
  std::uint64_t vector = 0;
};
Crossing crossing(const Algorithm &algorithm, Parameters parameters) {
  Crossing all;
  for (parameters.rank = 0; parameters.rank < parameters.ranks; ++parameters.rank) {
    const Schedule schedule = algorithm.build(parameters);
    all.vector = schedule.blocks;
    for (const Step &step : schedule.steps) {
      if (step.kind != Step::Kind::send) continue;
      const std::int32_t from = parameters.hosts[parameters.rank], to = parameters.hosts[step.peer];
      if (from != to) all.out[from] += step.source.blocks, all.in[to] += step.source.blocks;
    }
  }
  return all;
}

TEST(ByHost, LanesCrossHostsWithTheVolumeOfOneRankAHost) {
  for (std::int32_t ranks = 2; ranks <= 40; ++ranks)
    for (const test::Layout &layout : test::layouts(ranks)) {
      const auto hosts = std::uint64_t(count_hosts(layout.hosts));
      if (hosts < 2) continue;
      for (const std::int32_t radix : {2, 4}) {
        const Crossing all = crossing(*find_algorithm(Collective::allreduce, "hierarchical"),
                                      {.ranks = ranks, .radix = radix, .hosts = layout.hosts});
        for (const auto *side : {&all.out, &all.in})
          for (const auto &[host, blocks] : *side)
            ASSERT_EQ(blocks * hosts, 2 * (hosts - 1) * all.vector) << layout.name << ", host " << host;
      }
    }
}

TEST(ByHost, TreesBringEachHostTheVectorOnce) {
  for (const Collective collective : {Collective::broadcast, Collective::reduce})
    for (std::int32_t ranks = 2; ranks <= 40; ++ranks)
      for (const test::Layout &layout : test::layouts(ranks)) {
        if (layout.hosts.empty()) continue;
        const std::int32_t root = ranks * 2 / 3, home = layout.hosts[root];
        const Crossing all =
            crossing(*find_algorithm(collective, "hierarchical"),
                     {.collective = collective, .ranks = ranks, .root = root, .radix = 2, .hosts = layout.hosts});
        const auto &side = collective == Collective::broadcast ? all.in : all.out;
        EXPECT_EQ(side.size() + 1, std::size_t(count_hosts(layout.hosts)));
        for (const auto &[host, blocks] : side) {
          ASSERT_NE(host, home);
          ASSERT_EQ(blocks, all.vector) << layout.name << ", host " << host;
        }
      }
}

TEST(ByHost, RankOrderIsKeptWhereTheRanksOfAHostFollowOneAnother) {
  const Algorithm &leaders = *find_algorithm(Collective::allreduce, "leaders");
  const std::vector<std::int32_t> runs = {5, 5, 5, 2, 9, 9}, mixed = {0, 1, 0, 1}, back = {0, 0, 1, 1, 0};
  EXPECT_TRUE(keeps_rank_order(leaders, {.ranks = 6, .hosts = runs}));
  EXPECT_TRUE(keeps_rank_order(leaders, {.ranks = 6}));
  EXPECT_FALSE(keeps_rank_order(leaders, {.ranks = 4, .hosts = mixed}));
  EXPECT_FALSE(keeps_rank_order(leaders, {.ranks = 5, .hosts = back}));
  // And it is true that it does not.
  Algorithm claims = leaders;
  claims.order_needs_runs = false;
  EXPECT_NE(verify::verify(claims, {.ranks = 4, .hosts = mixed}).find("out of rank order"), std::string::npos);
}

// All schedules with a window: the k-th send from the last one on waits for a receive, so that what is under way beyond
// what has come is never more than the window.
TEST(Throttled, SendsAtMostItsWindowAheadOfWhatItHasReceived) {
  for (const Collective collective : {Collective::alltoall, Collective::alltoallv})
    for (std::int32_t ranks = 1; ranks <= 40; ++ranks)
      for (std::int32_t window = 1; window <= ranks; ++window)
        for (const bool in_place : {false, true}) {
          const Algorithm &algorithm = *find_algorithm(collective, "throttled");
          Parameters parameters{
              .collective = collective, .ranks = ranks, .rank = ranks / 3, .in_place = in_place, .radix = window};
          const Schedule schedule = algorithm.build(parameters);
          std::vector<std::int32_t> received;  // by receive, in order: its step
          std::int32_t sent = 0;
          for (std::int32_t index = 0; index < std::int32_t(schedule.steps.size()); ++index) {
            const Step &step = schedule.steps[std::size_t(index)];
            if (step.kind == Step::Kind::recv) received.push_back(index);
            if (step.kind != Step::Kind::send) continue;
            // With `sent` messages out, all but the window have to have been answered.
            ASSERT_EQ(step.after, sent < window ? -1 : received[std::size_t(sent - window)]) << "send " << sent;
            ++sent;
          }
          ASSERT_EQ(sent, ranks - 1);
          ASSERT_EQ(verify::verify(algorithm, parameters), "");
        }
}

using Skips = std::vector<std::int32_t>;

// Lists that people would try, and random ones, for so many ranks. All are valid.
std::vector<Skips> skip_lists(std::int32_t ranks, std::mt19937 &random) {
  std::vector<Skips> lists(5);
  for (std::int32_t skip = ranks; skip > 1;) lists[0].insert(lists[0].begin(), skip = (skip + 1) / 2);  // halving
  for (std::int32_t skip = 1; skip < ranks; skip *= 2) lists[1].push_back(skip);
  for (std::int32_t skip = 1, next = 2; skip < ranks; next += std::exchange(skip, next)) lists[2].push_back(skip);
  lists[3].push_back(1);
  const auto root = std::int32_t(std::sqrt(double(ranks)));
  for (std::int32_t skip = root; skip < ranks && root > 1; skip += root) lists[3].push_back(skip);
  for (std::int32_t skip = 1; skip < ranks && ranks <= 131; ++skip) lists[4].push_back(skip);  // all of them
  for (int more = 0; more < (ranks <= 64 ? 8 : 3); ++more) {
    Skips &list = lists.emplace_back(1, 1);
    const std::uint32_t one_in = 1 + std::uint32_t(random() % std::min(ranks, 40));
    for (std::int32_t skip = 2; skip < ranks; ++skip)
      if (random() % one_in == 0) list.push_back(skip);
  }
  std::erase_if(lists, [](const Skips &list) { return list.empty(); });
  return lists;
}

TEST(Circulant, HoldsForEveryListOfSkips) {
  int proofs = 0;
  std::mt19937 random(20250113);
  for (std::int32_t ranks = 2; ranks <= 257; ++ranks) {
    if (ranks > 64 && !is_prime(ranks) && (ranks & (ranks - 1)) != 0) continue;
    for (const Skips &skips : skip_lists(ranks, random))
      for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter_block,
                                          Collective::reduce_scatter, Collective::allgather, Collective::allgatherv})
        for (const bool in_place : {false, true}) {
          // Above, equal and listed counts differ in nothing.
          if (ranks > 64 && (collective == Collective::reduce_scatter || collective == Collective::allgatherv))
            continue;
          const Algorithm &algorithm = *find_algorithm(collective, "circulant");
          const Parameters parameters{.collective = collective, .ranks = ranks, .in_place = in_place, .skips = skips};
          ASSERT_TRUE(algorithm.supports(parameters));
          ASSERT_EQ(verify::verify(algorithm, parameters), "");
          ++proofs;
        }
  }
  EXPECT_GT(proofs, 5000);
}

TEST(Circulant, HalvingAsAListIsTheDefault) {
  std::mt19937 random(1);
  for (std::int32_t ranks = 2; ranks <= 33; ++ranks) {
    const Skips halving = skip_lists(ranks, random)[0];
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(find_algorithm(Collective::allreduce, "circulant")
                    ->build({.ranks = ranks, .rank = rank, .skips = halving})
                    .steps,
                find_algorithm(Collective::allreduce, "circulant")->build({.ranks = ranks, .rank = rank}).steps);
  }
}

TEST(Circulant, IsNotForListsThatBreakTheCondition) {
  const Algorithm &algorithm = *find_algorithm(Collective::allreduce, "circulant");
  EXPECT_FALSE(algorithm.supports({.ranks = 9, .skips = Skips{2, 5}}));
  EXPECT_FALSE(algorithm.supports({.ranks = 9, .skips = Skips{1, 5, 5}}));
  EXPECT_FALSE(algorithm.supports({.ranks = 9, .skips = Skips{1, 5, 4}}));
  EXPECT_FALSE(algorithm.supports({.ranks = 9, .skips = Skips{1, 9}}));
  EXPECT_TRUE(algorithm.supports({.ranks = 9, .skips = Skips{1, 8}}));
}

INSTANTIATE_TEST_SUITE_P(Schedules, Proof, testing::ValuesIn(algorithms()), name_of);

}  // namespace
}  // namespace tutti::collectives

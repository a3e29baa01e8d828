// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "collectives/form.h"
#include "collectives/hosts.h"
#include "collectives/select.h"

namespace tutti::collectives {
namespace {

// So many consecutive ranks on each host; what is returned lives on.
std::span<const std::int32_t> hosts(std::int32_t ranks, std::int32_t per_host) {
  static std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int32_t>> known;
  std::vector<std::int32_t> &layout = known[{ranks, per_host}];
  for (auto rank = std::int32_t(layout.size()); rank < ranks; ++rank) layout.push_back(rank / per_host);
  return layout;
}

// Situations on both sides of every bound in the table, so that each region of it is visited.
std::vector<Situation> situations() {
  std::set<std::int32_t> ranks = {1, 1024}, per_core = {1, 64};
  std::set<std::uint64_t> bytes = {0, std::uint64_t{1} << 40};
  for (const SelectionRow &row : selection_table()) {
    for (const std::int32_t bound : {row.min_ranks, row.max_ranks})
      for (const std::int64_t near : {-1, 0, 1})
        if (bound + near >= 1 && bound + near <= 1024) ranks.insert(std::int32_t(bound + near));
    for (const std::int32_t bound : {row.min_ranks_per_core, row.max_ranks_per_core})
      if (bound <= 1024) per_core.insert({bound, bound + 1});
    for (const std::uint64_t bound : {row.min_bytes, row.max_bytes})
      if (bound < std::uint64_t{1} << 40) bytes.insert({bound, bound + 1});
  }
  std::vector<Situation> all;
  for (int collective = 0; collective < kCollectives; ++collective)
    for (const std::int32_t r : ranks)
      for (const std::int32_t c : per_core)
        for (const std::uint64_t b : bytes)
          for (const std::int32_t per_host : {1, 2, r}) {
            const std::span<const std::int32_t> at = hosts(r, per_host);
            all.push_back({.collective = Collective(collective),
                           .ranks = r,
                           .ranks_per_core = c,
                           .bytes = b,
                           .board = per_host == r && r > 1,
                           .hosts = at,
                           .host_count = count_hosts(at)});
          }
  return all;
}

TEST(Selection, EverySituationGetsAnAlgorithmThatSupportsItWithAProvenRadix) {
  for (const Situation &situation : situations()) {
    const Choice choice = *select(situation, {});
    ASSERT_NE(choice.algorithm, nullptr);
    EXPECT_EQ(choice.algorithm->collective, situation.collective);
    const std::vector<std::int32_t> &proven = choice.algorithm->radices;
    EXPECT_NE(std::find(proven.begin(), proven.end(), choice.radix), proven.end())
        << choice.algorithm->name << " with radix " << choice.radix;
    EXPECT_TRUE(choice.algorithm->supports(
        {.collective = situation.collective, .ranks = situation.ranks, .radix = choice.radix}))
        << choice.algorithm->name << " for " << situation.ranks << " ranks";
  }
}

TEST(Selection, EveryRowIsChosenSomewhere) {
  std::set<std::tuple<Collective, std::string, std::int32_t>> chosen;
  for (const Situation &situation : situations()) {
    for (const bool ordered : {false, true}) {
      Situation asked = situation;
      asked.ordered = ordered;
      if (ordered && asked.collective == Collective::barrier) continue;
      const Choice choice = *select(asked, {});
      chosen.insert({asked.collective, std::string(choice.algorithm->name), choice.radix});
    }
  }
  for (const SelectionRow &row : selection_table())
    EXPECT_TRUE(chosen.contains({row.collective, std::string(row.algorithm), row.radix}))
        << collective_name(row.collective) << ' ' << row.algorithm;
}

TEST(Selection, TwoRanksExchangeSmallVectorsInOneRound) {
  EXPECT_EQ(select({.ranks = 2, .bytes = 8}, {})->algorithm->name, "direct");
  EXPECT_NE(select({.ranks = 2, .bytes = 64 << 20}, {})->algorithm->name, "direct");
}

TEST(Selection, AnOverrideWins) {
  const Overrides overrides = *parse_overrides("allreduce:ring,broadcast:chain");
  for (const Situation &situation : situations())
    if (situation.collective == Collective::allreduce || situation.collective == Collective::broadcast) {
      EXPECT_EQ(select(situation, overrides)->algorithm->name,
                situation.collective == Collective::allreduce ? "ring" : "chain");
    }
}

TEST(Selection, AnOverrideThatCannotRunIsAnErrorThatNamesWhatCan) {
  const Overrides direct = *parse_overrides("allreduce:direct");
  EXPECT_EQ(select({.ranks = 64, .bytes = 1 << 20}, direct)->algorithm->name, "direct");
  const Result<Choice> refused = select({.ranks = 65, .bytes = 1 << 20}, direct);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::config);
  EXPECT_EQ(
      refused.error().text,
      "allreduce:direct, which the call, tutti_comm_set_algorithms or TUTTI_ALGO asks for, cannot run for 65 ranks; "
      "recursive_doubling, recursive_multiplying, ring, circulant, hierarchical, leaders, board_blocks, board_root "
      "can");
  EXPECT_TRUE(select({.collective = Collective::broadcast, .ranks = 65}, direct)) << "the other collective is free";
}

TEST(Selection, WhatDoesNotCommuteGetsAnAlgorithmThatKeepsRankOrder) {
  for (Situation situation : situations()) {
    situation.ordered = situation.collective != Collective::barrier;  // which has no operator of the caller's
    if (!situation.ordered) continue;
    EXPECT_TRUE(select(situation, {})->algorithm->keeps_rank_order);
  }
  const Situation ordered{.ranks = 8, .bytes = 1 << 20, .ordered = true};
  const Result<Choice> refused = select(ordered, *parse_overrides("allreduce:ring"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text,
            "allreduce:ring, which the call, tutti_comm_set_algorithms or TUTTI_ALGO asks for, does not keep rank "
            "order, which "
            "this operator needs; direct, recursive_doubling, recursive_multiplying, leaders, board, "
            "board_blocks, board_root can");
  EXPECT_TRUE(select({.collective = Collective::barrier, .ranks = 8, .ordered = false}, {}));
}

TEST(Selection, WhereRanksShareSeveralHostsTheVectorCrossesOnce) {
  const auto chosen = [](std::int32_t ranks, std::int32_t per_host, std::uint64_t bytes) {
    return select({.ranks = ranks,
                   .bytes = bytes,
                   .hosts = hosts(ranks, per_host),
                   .host_count = count_hosts(hosts(ranks, per_host))},
                  {})
        ->algorithm->name;
  };
  EXPECT_EQ(chosen(4, 2, 1 << 20), "hierarchical");
  EXPECT_EQ(chosen(64, 8, 1 << 20), "hierarchical");
  EXPECT_EQ(chosen(64, 8, 8), "leaders");
  EXPECT_NE(chosen(64, 64, 1 << 20), "hierarchical") << "one host";
  EXPECT_NE(chosen(64, 1, 1 << 20), "hierarchical") << "a rank a host";
}

TEST(Selection, ByHostRankOrderDependsOnTheLayout) {
  const std::vector<std::int32_t> mixed = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
  Situation situation{.ranks = 10, .bytes = 8, .ordered = true, .hosts = mixed, .host_count = 2};
  EXPECT_NE(select(situation, {})->algorithm->name, "leaders");
  EXPECT_FALSE(select(situation, *parse_overrides("allreduce:leaders")));
  situation.hosts = hosts(10, 5);
  EXPECT_EQ(select(situation, {})->algorithm->name, "leaders");
}

// Neither size nor machine may change what is added to what.
TEST(Selection, ReproducibleReductionsDependOnTheNumberOfRanksAlone) {
  std::map<std::pair<Collective, std::int32_t>, std::set<std::pair<std::string, std::int32_t>>> chosen;
  for (Situation situation : situations()) {
    situation.reproducible = true;
    const Choice choice = *select(situation, {});
    chosen[{situation.collective, situation.ranks}].insert({std::string(choice.algorithm->name), choice.radix});
    if (form_of(situation.collective).reduces && situation.collective != Collective::barrier) {
      EXPECT_TRUE(choice.algorithm->keeps_rank_order) << choice.algorithm->name;
    }
  }
  for (const auto &[where, choices] : chosen)
    if (form_of(where.first).reduces && where.first != Collective::barrier) {
      EXPECT_EQ(choices.size(), 1u) << collective_name(where.first) << " of " << where.second << " ranks";
    }
  EXPECT_EQ(
      select({.ranks = 8, .bytes = 1 << 20, .reproducible = true}, *parse_overrides("allreduce:ring"))->algorithm->name,
      "ring")
      << "who names an algorithm gets it";
}

TEST(Selection, AnOverrideThatIsTheTablesChoiceKeepsItsRadix) {
  const Situation small{.collective = Collective::broadcast, .ranks = 8, .bytes = 8};
  EXPECT_EQ(select(small, *parse_overrides("broadcast:knomial"))->radix, select(small, {})->radix);
}

TEST(Overrides, AreReadPerCollective) {
  const Result<Overrides> both = parse_overrides("allreduce:ring,broadcast:chain");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->of(Collective::allreduce)->algorithm->name, "ring");
  EXPECT_EQ(both->of(Collective::broadcast)->algorithm->name, "chain");
  EXPECT_EQ(both->of(Collective::barrier), nullptr);
  const Result<Overrides> none = parse_overrides("");
  ASSERT_TRUE(none);
  for (const Variant *variant : none->variants) EXPECT_EQ(variant, nullptr);
}

TEST(Overrides, MayNameARadixOrSkips) {
  const Overrides overrides =
      *parse_overrides("allreduce:circulant:skips=1-2-5-9,alltoall:throttled:window=3,reduce:knomial:radix=5");
  const Choice allreduce = *select({.ranks = 17, .bytes = 8}, overrides);
  EXPECT_EQ(allreduce.algorithm->name, "circulant");
  EXPECT_EQ(std::vector<std::int32_t>(allreduce.skips.begin(), allreduce.skips.end()),
            (std::vector<std::int32_t>{1, 2, 5, 9}));
  const Choice alltoall = *select({.collective = Collective::alltoall, .ranks = 17, .bytes = 8}, overrides);
  EXPECT_EQ(alltoall.algorithm->name, "throttled");
  EXPECT_EQ(alltoall.radix, 3);
  EXPECT_TRUE(alltoall.skips.empty());
  EXPECT_EQ(select({.collective = Collective::reduce, .ranks = 17, .bytes = 8}, overrides)->radix, 5);
}

TEST(Overrides, SkipsThatAreNotBelowTheNumberOfRanksAreAnErrorOfTheCall) {
  const Overrides overrides = *parse_overrides("allreduce:circulant:skips=1-2-5-9");
  EXPECT_TRUE(select({.ranks = 10, .bytes = 8}, overrides));
  EXPECT_TRUE(select({.ranks = 1, .bytes = 8}, overrides)) << "nothing moves";
  const Result<Choice> refused = select({.ranks = 9, .bytes = 8}, overrides);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().text,
      "allreduce:circulant:skips=1-2-5-9, which the call, tutti_comm_set_algorithms or TUTTI_ALGO asks for, cannot run "
      "for 9 ranks: skip 9 is not below the number of ranks");
}

TEST(Overrides, ErrorsNameTheParameterThatIsWrong) {
  const auto text = [](std::string_view value) {
    const Result<Overrides> result = parse_overrides(value);
    return result ? "accepted" : result.error().text;
  };
  EXPECT_EQ(text("allreduce:circulant:skips=2-5"),
            "TUTTI_ALGO: allreduce:circulant: the first of a list of skips is 1, not 2");
  EXPECT_EQ(text("allreduce:circulant:skips=1-5-5"), "TUTTI_ALGO: allreduce:circulant: skips rise, but 5 follows 5");
  for (const char *list : {"1-x", "1-", "", "-1", "1--2", "1-99999999999", "1 2"})
    EXPECT_EQ(text(std::string("allreduce:circulant:skips=") + list),
              "TUTTI_ALGO: allreduce:circulant: '" + std::string(list) + "' is no list of skips, as in 1-2-5-9");
  EXPECT_EQ(text("allreduce:ring:skips=1-2"),
            "TUTTI_ALGO: allreduce:ring has no parameter 'skips', or has it already; its parameters are: none");
  EXPECT_EQ(
      text("alltoall:throttled:radix=2:window=3"),
      "TUTTI_ALGO: alltoall:throttled has no parameter 'window', or has it already; its parameters are: window=N");
  EXPECT_EQ(text("allreduce:circulant:radix=1"),
            "TUTTI_ALGO: allreduce:circulant: '1' is no radix for it; it can have 2 to 4096");
  EXPECT_EQ(text("alltoall:throttled:window=0"),
            "TUTTI_ALGO: alltoall:throttled: '0' is no window for it; it can have 1 to 4096");
  EXPECT_EQ(text("allreduce:circulant:radix=2:skips=1-2"),
            "TUTTI_ALGO: allreduce:circulant takes a radix or a list of skips, not both");
  EXPECT_EQ(text("allreduce:circulant:"),
            "TUTTI_ALGO: 'circulant:' ends where a parameter should follow, as in radix=4");
}

TEST(Overrides, WhatIsNamedTwiceIsKeptOnce) {
  const Variant *first = *variant_of(Collective::allreduce, "circulant:skips=1-3");
  EXPECT_EQ(*variant_of(Collective::allreduce, "circulant:skips=1-3"), first);
  EXPECT_NE(*variant_of(Collective::allgather, "circulant:skips=1-3"), first);
}

TEST(Overrides, TheTableIsNamedLikeAnAlgorithm) {
  const Situation situation{.ranks = 8, .bytes = 1 << 20};
  EXPECT_EQ(select(situation, *parse_overrides("allreduce:table"))->algorithm, select(situation, {})->algorithm);
  EXPECT_EQ(*variant_of(Collective::broadcast, "table"), &by_table());
}

TEST(Overrides, ErrorsNameTheUnknownPartAndWhatExists) {
  const auto text = [](std::string_view value) {
    const Result<Overrides> result = parse_overrides(value);
    return result ? "accepted" : result.error().text;
  };
  EXPECT_EQ(text("ring"), "TUTTI_ALGO: 'ring' is not COLLECTIVE:ALGORITHM, as in allreduce:ring");
  EXPECT_EQ(
      text("reduction:ring"),
      "TUTTI_ALGO: there is no collective 'reduction'; there are allreduce, broadcast, barrier, reduce, "
      "reduce_scatter_block, reduce_scatter, allgather, allgatherv, gather, gatherv, scatter, scatterv, alltoall, "
      "alltoallv, scan, exscan");
  EXPECT_EQ(text("broadcast:ring"),
            "TUTTI_ALGO: broadcast has no algorithm 'ring'; it has knomial, scatter_allgather, chain, circulant, "
            "hierarchical, board, and table for the library's choice");
  EXPECT_EQ(text("allreduce:ring,allreduce:direct"), "TUTTI_ALGO names allreduce twice; give it one algorithm");
  EXPECT_EQ(text("allreduce:ring,"), "TUTTI_ALGO: '' is not COLLECTIVE:ALGORITHM, as in allreduce:ring");
  EXPECT_EQ(parse_overrides("x").error().code, Code::config);
}

TEST(Selection, TextHasOneLineARow) {
  const std::string text = selection_text();
  EXPECT_EQ(std::size_t(std::count(text.begin(), text.end(), '\n')), selection_table().size() + 1);
  for (const SelectionRow &row : selection_table()) EXPECT_NE(text.find(row.algorithm), std::string::npos);
}

}  // namespace
}  // namespace tutti::collectives

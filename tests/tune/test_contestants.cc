// SPDX-License-Identifier: BSD-3-Clause
//
// Who takes part: today's choice first, everything else that can run, nothing twice; and the proof of who wins.
#include <gtest/gtest.h>

#include <algorithm>

#include "tutti-tune/circumstances.h"
#include "tutti-tune/race.h"

namespace tutti::tune {
namespace {

using collectives::Collective;

Circumstances among(std::int32_t ranks) {
  return {.ranks = ranks, .hosts = std::vector<std::int32_t>(static_cast<std::size_t>(ranks), 0)};
}

TEST(Contestants, BeginWithTheTablesChoice) {
  for (const std::int32_t ranks : {2, 3, 8, 17})
    for (int i = 0; i < collectives::kCollectives; ++i)
      for (const std::uint64_t bytes : {8u, 1u << 20}) {
        const auto collective = static_cast<Collective>(i);
        const collectives::Choice table = *select(among(ranks).situation(collective, bytes), {});
        const std::vector<Contestant> all = contestants(among(ranks), collective, bytes);
        EXPECT_EQ(all.front().algorithm, table.algorithm);
        EXPECT_EQ(all.front().radix, table.radix);
        for (const Contestant &one : all)
          EXPECT_TRUE(one.algorithm->supports(among(ranks).parameters(collective, one.radix))) << one.algorithm->name;
      }
}

TEST(Contestants, ThatDoTheSameTakePartOnce) {
  const std::vector<Contestant> two = contestants(among(2), Collective::barrier, 0);
  EXPECT_EQ(std::ranges::count_if(two, [](const Contestant &one) { return one.algorithm->name == "dissemination"; }), 1)
      << "among two ranks all radices are one";
  const std::vector<Contestant> many = contestants(among(17), Collective::barrier, 0);
  EXPECT_GT(std::ranges::count_if(many, [](const Contestant &one) { return one.algorithm->name == "dissemination"; }),
            1);
}

TEST(Contestants, AreProvedWithTheParametersThatTheyWinWith) {
  for (const std::int32_t ranks : {2, 5})
    for (const Collective collective : {Collective::allreduce, Collective::broadcast, Collective::barrier})
      for (const Contestant &one : contestants(among(ranks), collective, 8))
        EXPECT_EQ(proof(among(ranks), *one.algorithm, one.radix), "");
  collectives::Algorithm broken = *collectives::find_algorithm(Collective::allreduce, "ring");
  broken.build = [](const collectives::Parameters &) { return collectives::Schedule(); };
  EXPECT_NE(proof(among(3), broken, 0), "");
}

TEST(Sizes, AreOfTheWholeVector) {
  EXPECT_EQ(whole_bytes(Collective::allreduce, 3, 10), 40u);
  EXPECT_EQ(whole_bytes(Collective::allgather, 3, 10), 120u);
  EXPECT_EQ(count_within(Collective::allgather, 3, 130), 10u);
  EXPECT_EQ(count_within(Collective::allgather, 3, 8), 1u) << "at least one element";
}

}  // namespace
}  // namespace tutti::tune

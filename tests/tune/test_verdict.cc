// SPDX-License-Identifier: BSD-3-Clause
//
// From times to rows: noise changes nothing, and neighbouring sizes go together.
#include "tutti-tune/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tutti-tune/report.h"

namespace tutti::tune {
namespace {

using collectives::Collective;
using collectives::find_algorithm;

Contestant one(const char *name, double median, double spread = 0.01) {
  return {find_algorithm(Collective::allreduce, name), 2, {median, median * (1 - spread), median * (1 + spread)}};
}

// At each size today's choice takes 100 us, and these are clearly better.
Point point(std::uint64_t bytes, std::vector<Contestant> better = {}) {
  return {.bytes = bytes, .today = one("direct", 100), .better = std::move(better), .tried = 3};
}

TEST(Figures, AreMedianAndQuartiles) {
  const Figures odd = figures_of({5, 1, 3, 2, 4});
  EXPECT_EQ(odd.median_us, 3);
  EXPECT_EQ(odd.low_us, 2);
  EXPECT_EQ(odd.high_us, 4);
  const Figures even = figures_of({4, 1});
  EXPECT_EQ(even.median_us, 2.5);
  EXPECT_EQ(figures_of({7}).high_us, 7);
}

TEST(ClearlyBetter, IsWhatGainsEnoughBeyondTheQuartiles) {
  const Figures today = {100, 98, 102};
  EXPECT_TRUE(clearly_better(today, {90, 88, 92}, 0.05));
  EXPECT_FALSE(clearly_better(today, {96, 95, 97}, 0.05)) << "too little";
  EXPECT_TRUE(clearly_better(today, {96, 95, 97}, 0.03));
  EXPECT_FALSE(clearly_better(today, {80, 60, 98}, 0.05)) << "quartiles that touch";
  EXPECT_FALSE(clearly_better({100, 70, 140}, {80, 75, 85}, 0.05)) << "noise of today's";
  EXPECT_FALSE(clearly_better(today, today, 0)) << "itself";
}

TEST(BetterTwice, IsWhoWasBetterBothTimesWithTheSecondFigures) {
  const std::vector<Contestant> first = {one("ring", 70), one("circulant", 71)};
  const std::vector<Contestant> second = {one("circulant", 75), one("recursive_doubling", 60)};
  const std::vector<Contestant> both = better_twice(first, second);
  ASSERT_EQ(both.size(), 1u);
  EXPECT_EQ(both[0].algorithm->name, "circulant");
  EXPECT_EQ(both[0].figures.median_us, 75);
  EXPECT_TRUE(better_twice(first, {}).empty());
}

TEST(Changes, AreNoneWhereNothingIsBetter) {
  EXPECT_TRUE(changes_of({}, {}).empty());
  const std::vector<Point> points = {point(8), point(64), point(512)};
  EXPECT_TRUE(changes_of(points, {}).empty());
  EXPECT_TRUE(chosen_at(points, 1, {}).same(points[1].today));
}

TEST(Changes, ReachToTheMiddleBetweenSizesAndNoFurtherThanWasMeasured) {
  const std::vector<Point> points = {point(64, {one("ring", 80)}), point(1024, {one("ring", 80)}), point(16384),
                                     point(65536, {one("circulant", 50)})};
  const std::vector<Change> changes = changes_of(points, {});
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].min_bytes, 0u) << "a cache line is as good as a byte";
  EXPECT_EQ(changes[0].max_bytes, 4096u);
  EXPECT_EQ(changes[0].algorithm->name, "ring");
  EXPECT_EQ(std::tie(changes[0].first, changes[0].last), std::make_tuple(0u, 1u));
  EXPECT_EQ(changes[1].min_bytes, 32769u);
  EXPECT_EQ(changes[1].max_bytes, 65536u);
  EXPECT_EQ(chosen_at(points, 0, changes).algorithm->name, "ring");
  EXPECT_EQ(chosen_at(points, 2, changes).algorithm->name, "direct");
  EXPECT_EQ(chosen_at(points, 3, changes).algorithm->name, "circulant");
  const std::vector<Point> large = {point(1024, {one("ring", 80)}), point(4096, {one("ring", 80)})};
  EXPECT_EQ(changes_of(large, {}).at(0).min_bytes, 1024u);
}

TEST(Changes, OfNeighboursAreOneWhereOneIsNearlyAsGoodAsTheBest) {
  const std::vector<Point> points = {point(8, {one("ring", 70), one("circulant", 71)}),
                                     point(64, {one("circulant", 70), one("ring", 80)}),
                                     point(512, {one("circulant", 70)})};
  const std::vector<Change> changes = changes_of(points, {.least_gain = 0.05, .close = 0.03});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].algorithm->name, "circulant") << "the second best of the smallest, but of all three";
  EXPECT_EQ(chosen_at(points, 0, changes).figures.median_us, 71);
  EXPECT_EQ(remark_text(points, changes[0]), "71.00 us instead of 100.00 at 8, 70.00 us instead of 100.00 at 512");
  EXPECT_EQ(changes_of(points, {.least_gain = 0.05, .close = 0.01}).size(), 2u) << "not near enough";
}

TEST(Changes, OfASizeThatStandsAloneHaveToGainTwiceAsMuch) {
  const std::vector<Point> little = {point(8), point(64, {one("ring", 93)}), point(512)};
  EXPECT_TRUE(changes_of(little, {.least_gain = 0.05}).empty());
  const std::vector<Point> enough = {point(8), point(64, {one("ring", 89)}), point(512)};
  EXPECT_EQ(changes_of(enough, {.least_gain = 0.05}).size(), 1u);
  const std::vector<Point> two = {point(8), point(64, {one("ring", 93)}), point(512, {one("circulant", 93)})};
  EXPECT_EQ(changes_of(two, {.least_gain = 0.05}).size(), 2u) << "its neighbour changes, too";
}

TEST(Report, HasALineForEachSize) {
  const std::vector<Point> points = {point(64), point(1024, {one("ring", 80)})};
  const std::string text = points_text(Collective::allreduce, points, changes_of(points, {}));
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);
  EXPECT_NE(text.find("80.00    20 %\n"), std::string::npos) << text;
  EXPECT_NE(text.find("100.00  -   "), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti::tune

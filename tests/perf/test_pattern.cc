// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-perf's judgement: right results pass for every type and operator, and any kind of wrong one is counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "support/thread_ranks.h"
#include "tutti-perf/made_operator.h"
#include "tutti-perf/pattern.h"

namespace tutti::perf {
namespace {

constexpr std::size_t kCount = 10'000;  // more than two periods

using Bytes = std::vector<std::byte>;

Bytes contribution(const ElementType &type, const Operator &op, int ranks, int rank, std::uint64_t salt) {
  Bytes values(kCount * type.bytes);
  Pattern(Outcome::reduction, type, op, ranks, rank, 0).fill(values.data(), kCount, salt);
  return values;
}

// Results of the library, whose kernels are checked with an oracle of their own (tests/reduce), for every type and
// operator: what the two oracles say is the same.
class Ranks : public ::testing::TestWithParam<int> {};

TEST_P(Ranks, ResultsOfEveryTypeAndOperatorPass) {
  const int size = GetParam();
  test::ThreadRanks ranks(size);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([size](int rank, tutti_comm *comm) {
    for (const ElementType &type : element_types())
      for (const Operator &row : operators()) {
        if (!takes(type, row)) continue;
        const Result<MadeOperator> made = MadeOperator::make(row, type, rank);
        ASSERT_TRUE(made) << made.error().text;
        const Pattern pattern(Outcome::reduction, type, made->op(), size, rank, 0);
        Bytes values = contribution(type, made->op(), size, rank, 7);
        ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, values.data(), kCount, type.id, made->op().id, comm), TUTTI_SUCCESS)
            << test::last_error().text;
        ASSERT_EQ(0u, pattern.wrong(values.data(), kCount, 7)) << type.name << ' ' << row.name << ' ' << size;
        values[kCount / 2] ^= std::byte{1};
        ASSERT_EQ(1u, pattern.wrong(values.data(), kCount, 7)) << type.name << ' ' << row.name;
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Few, Ranks, ::testing::Values(1, 2, 3, 5, 11));

TEST(Types, TakeTheOperatorsThatTheLibrarySaysTheyTake) {
  test::ThreadRanks ranks(1);
  for (const ElementType &type : element_types())
    for (const Operator &op : operators()) {
      if (op.made != Made::no) continue;
      const tutti_result result = tutti_allreduce(nullptr, nullptr, 0, type.id, op.id, ranks[0].comm);
      EXPECT_EQ(result, takes(type, op) ? TUTTI_SUCCESS : TUTTI_ERROR_OP) << type.name << ' ' << op.name;
    }
}

// A sum in floats, for tests of wrong ones.
template <class T>
std::vector<T> reduce(const ElementType &type, const Operator &op, const std::vector<int> &order, std::uint64_t salt) {
  std::vector<T> result(kCount);
  for (const int rank : order) {
    const Bytes next = contribution(type, op, static_cast<int>(order.size()), rank, salt);
    for (std::size_t i = 0; i < kCount; ++i) {
      T value;
      std::memcpy(&value, &next[i * sizeof(T)], sizeof(T));
      result[i] += value;
    }
  }
  return result;
}

class WrongFloats : public ::testing::Test {
 protected:
  const ElementType &type = *find_row(element_types(), "float");
  const Operator &sum = *find_row(operators(), "sum");
  Pattern pattern{Outcome::reduction, type, sum, 3, 0, 0};
  std::vector<float> right = reduce<float>(type, sum, {0, 1, 2}, 1);
  std::uint64_t wrong() const { return pattern.wrong(right.data(), kCount, 1); }
};

TEST_F(WrongFloats, OneElementAnywhereIsCounted) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{4092}, std::size_t{4093}, kCount - 1}) {
    const float before = right[at];
    right[at] += 1;
    EXPECT_EQ(1u, wrong()) << at;
    right[at] = before;
  }
}

TEST_F(WrongFloats, OneBitIsEnough) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &right[5], sizeof(bits));
  bits ^= 1;
  std::memcpy(&right[5], &bits, sizeof(bits));
  EXPECT_EQ(1u, wrong());
}

TEST_F(WrongFloats, SwappedBlocksAreCounted) {
  std::swap_ranges(right.begin(), right.begin() + 4096, right.begin() + 4096);
  EXPECT_GT(wrong(), 7000u);
}

TEST_F(WrongFloats, TheResultOfAnotherCallIsWrong) { EXPECT_GT(pattern.wrong(right.data(), kCount, 2), 8000u); }

TEST_F(WrongFloats, AMissingContributionIsCounted) {
  right = reduce<float>(type, sum, {0, 1, 1}, 1);
  EXPECT_GT(wrong(), 8000u);
}

TEST_F(WrongFloats, PoisonIsWrongInEveryElement) {
  pattern.poison(right.data(), kCount, 1);
  EXPECT_EQ(kCount, wrong());
}

TEST(Pattern, OnlyTheRootContributesToABroadcast) {
  const ElementType &type = *find_row(element_types(), "int16");
  const Operator &sum = *find_row(operators(), "sum");
  std::vector<std::int16_t> root(kCount), other(kCount);
  const Pattern at_root(Outcome::root, type, sum, 4, 2, 2), elsewhere(Outcome::root, type, sum, 4, 0, 2);
  at_root.fill(root.data(), kCount, 3);
  elsewhere.fill(other.data(), kCount, 3);
  EXPECT_EQ(0u, at_root.wrong(root.data(), kCount, 3));
  EXPECT_EQ(kCount, elsewhere.wrong(other.data(), kCount, 3)) << "a broadcast that does nothing must show";
  EXPECT_EQ(0u, elsewhere.wrong(root.data(), kCount, 3));
}

// What all ranks of a collective put in and take out, moved by hand: right as it is, wrong after a swap.
void blocks_are_told_apart(Outcome outcome,
                           const std::function<std::pair<int, std::size_t>(int rank, int block)> &from) {
  constexpr int kRanks = 3, kRoot = 1;
  constexpr std::size_t kEach = 5000;
  const ElementType &type = *find_row(element_types(), "int32");
  const Operator &sum = *find_row(operators(), "sum");
  std::vector<std::vector<std::int32_t>> in(kRanks);
  std::vector<Pattern> patterns;
  for (int rank = 0; rank < kRanks; ++rank) {
    patterns.emplace_back(outcome, type, sum, kRanks, rank, kRoot);
    in[static_cast<std::size_t>(rank)].resize(patterns.back().inputs(kEach));
    patterns.back().fill(in[static_cast<std::size_t>(rank)].data(), kEach, 9);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    const Pattern &pattern = patterns[static_cast<std::size_t>(rank)];
    std::vector<std::int32_t> out(pattern.outputs(kEach));
    pattern.poison(out.data(), kEach, 9);
    EXPECT_EQ(out.size(), pattern.wrong(out.data(), kEach, 9)) << "poison is wrong everywhere";
    for (std::size_t block = 0; block < out.size() / kEach; ++block) {
      const auto [source, first] = from(rank, static_cast<int>(block));
      const std::vector<std::int32_t> &given = in[static_cast<std::size_t>(source)];
      std::copy_n(given.begin() + static_cast<std::ptrdiff_t>(first * kEach), kEach,
                  out.begin() + static_cast<std::ptrdiff_t>(block * kEach));
    }
    EXPECT_EQ(0u, pattern.wrong(out.data(), kEach, 9)) << "rank " << rank;
    if (out.size() < 2 * kEach) continue;
    std::rotate(out.begin(), out.begin() + kEach, out.end());
    EXPECT_GT(pattern.wrong(out.data(), kEach, 9), out.size() / 2) << "blocks in each other's places";
  }
}

TEST(Pattern, KnowsWhichBlockOfWhichRankBelongsWhere) {
  using Origin = std::pair<int, std::size_t>;
  const auto at = [](int rank) { return static_cast<std::size_t>(rank); };
  blocks_are_told_apart(Outcome::blocks, [](int, int block) { return Origin{block, 0}; });
  blocks_are_told_apart(Outcome::root_blocks, [](int, int block) { return Origin{block, 0}; });
  blocks_are_told_apart(Outcome::root_block, [&](int rank, int) { return Origin{1, at(rank)}; });
  blocks_are_told_apart(Outcome::exchange, [&](int rank, int block) { return Origin{block, at(rank)}; });
}

TEST(Pattern, PrefixesAndBlocksOfReductionsAreExact) {
  const ElementType &type = *find_row(element_types(), "int64");
  const Operator &sum = *find_row(operators(), "sum");
  constexpr std::size_t kEach = 6000;
  std::vector<std::int64_t> running(3 * kEach), mine(3 * kEach);
  for (int rank = 0; rank < 3; ++rank) {
    const Pattern before(Outcome::prefix_before, type, sum, 3, rank, 0), upto(Outcome::prefix, type, sum, 3, rank, 0);
    const Pattern blocks(Outcome::reduced_block, type, sum, 3, rank, 0);
    EXPECT_EQ(0u, before.wrong(running.data(), kEach, 4)) << "rank 0 has nothing to check";
    blocks.fill(mine.data(), kEach, 4);
    // Unsigned, where overflow wraps.
    for (std::size_t i = 0; i < mine.size(); ++i)
      running[i] =
          static_cast<std::int64_t>(static_cast<std::uint64_t>(running[i]) + static_cast<std::uint64_t>(mine[i]));
    EXPECT_EQ(0u, upto.wrong(running.data(), kEach, 4)) << "rank " << rank;
  }
  for (int rank = 0; rank < 3; ++rank) {
    const Pattern blocks(Outcome::reduced_block, type, sum, 3, rank, 0);
    EXPECT_EQ(0u, blocks.wrong(running.data() + static_cast<std::size_t>(rank) * kEach, kEach, 4)) << "rank " << rank;
    EXPECT_EQ(kEach, blocks.wrong(running.data() + static_cast<std::size_t>((rank + 1) % 3) * kEach, kEach, 4));
  }
}

}  // namespace
}  // namespace tutti::perf

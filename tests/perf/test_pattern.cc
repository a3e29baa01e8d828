// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-perf's judgement: right results pass for every type and operator, and any kind of wrong one is counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "tutti-perf/pattern.h"

namespace tutti::perf {
namespace {

constexpr std::size_t kCount = 10'000;  // more than two periods

template <class T>
std::vector<T> contribution(const ElementType &type, const Operator &op, int ranks, int rank, std::uint64_t salt) {
  std::vector<T> values(kCount);
  Pattern(Outcome::reduction, type, op, ranks, rank, 0).fill(values.data(), kCount, salt);
  return values;
}

// The plain definition, in a chosen order of ranks.
template <class T>
std::vector<T> reduce(const ElementType &type, const Operator &op, std::vector<int> order, std::uint64_t salt) {
  const int ranks = static_cast<int>(order.size());
  std::vector<T> result = contribution<T>(type, op, ranks, order[0], salt);
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::vector<T> next = contribution<T>(type, op, ranks, order[i], salt);
    for (std::size_t k = 0; k < kCount; ++k) {
      if (op.id == TUTTI_MIN) result[k] = next[k] < result[k] ? next[k] : result[k];
      else if (op.id == TUTTI_MAX) result[k] = next[k] > result[k] ? next[k] : result[k];
      else if constexpr (std::is_integral_v<T>) {
        // Unsigned and at least int wide: no promotion to int, where a product could overflow.
        using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
        using Bits = std::make_unsigned_t<T>;
        const Wide a = static_cast<Bits>(result[k]), b = static_cast<Bits>(next[k]);
        result[k] = static_cast<T>(op.id == TUTTI_SUM ? a + b : a * b);
      } else {
        result[k] = op.id == TUTTI_SUM ? result[k] + next[k] : result[k] * next[k];
      }
    }
  }
  return result;
}

template <class T>
void right_in_any_order(const ElementType &type) {
  for (const Operator &op : operators())
    for (const std::vector<int> &order : {std::vector{0}, std::vector{0, 1}, std::vector{4, 2, 0, 1, 3}}) {
      const Pattern pattern(Outcome::reduction, type, op, static_cast<int>(order.size()), 0, 0);
      std::vector<T> result = reduce<T>(type, op, order, 7);
      EXPECT_EQ(0u, pattern.wrong(result.data(), kCount, 7)) << type.name << ' ' << op.name << ' ' << order.size();
    }
}

TEST(Pattern, ResultsOfEveryTypeAndOperatorAreExactInAnyOrder) {
  for (const ElementType &type : element_types()) switch (type.id) {
      case TUTTI_INT8: right_in_any_order<std::int8_t>(type); break;
      case TUTTI_UINT8: right_in_any_order<std::uint8_t>(type); break;
      case TUTTI_INT16: right_in_any_order<std::int16_t>(type); break;
      case TUTTI_UINT16: right_in_any_order<std::uint16_t>(type); break;
      case TUTTI_INT32: right_in_any_order<std::int32_t>(type); break;
      case TUTTI_UINT32: right_in_any_order<std::uint32_t>(type); break;
      case TUTTI_INT64: right_in_any_order<std::int64_t>(type); break;
      case TUTTI_UINT64: right_in_any_order<std::uint64_t>(type); break;
      case TUTTI_FLOAT: right_in_any_order<float>(type); break;
      case TUTTI_DOUBLE: right_in_any_order<double>(type); break;
      default: FAIL() << type.name << " has no row here";
    }
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

}  // namespace
}  // namespace tutti::perf

// SPDX-License-Identifier: BSD-3-Clause
//
// Every kernel, on every instruction set that this CPU has, against the rules of kernels.h computed one element at a
// time: lengths around every vector size, all alignments, operands that are the output, and nothing written beside it.
#include "reduce/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "reduce/targets.h"

namespace tutti::reduce {
namespace {

constexpr Op kAllOps[] = {Op::sum, Op::prod, Op::min, Op::max};

template <class T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, std::int8_t>) return Type::int8;
  if constexpr (std::is_same_v<T, std::uint8_t>) return Type::uint8;
  if constexpr (std::is_same_v<T, std::int16_t>) return Type::int16;
  if constexpr (std::is_same_v<T, std::uint16_t>) return Type::uint16;
  if constexpr (std::is_same_v<T, std::int32_t>) return Type::int32;
  if constexpr (std::is_same_v<T, std::uint32_t>) return Type::uint32;
  if constexpr (std::is_same_v<T, std::int64_t>) return Type::int64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return Type::uint64;
  if constexpr (std::is_same_v<T, float>) return Type::float32;
  if constexpr (std::is_same_v<T, double>) return Type::float64;
}

template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class T>
T oracle(Op op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T nan = sizeof(T) == 4 ? from_bits<T>(0x7FC00000u) : from_bits<T>(0x7FF8000000000000u);
    if (std::isnan(a) || std::isnan(b)) return nan;
    const bool same_sign = std::signbit(a) == std::signbit(b);
    switch (op) {
      case Op::sum: return std::isinf(a) && std::isinf(b) && !same_sign ? nan : a + b;
      case Op::prod: return (std::isinf(a) && b == 0) || (std::isinf(b) && a == 0) ? nan : a * b;
      case Op::min: return a == b && !same_sign ? T(-0.0) : (a < b ? a : b);
      case Op::max: return a == b && !same_sign ? T(+0.0) : (a > b ? a : b);
    }
  } else {
    __extension__ using Wide = unsigned __int128;
    switch (op) {
      case Op::sum: return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
      case Op::prod: return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
      case Op::min: return a < b ? a : b;
      case Op::max: return a > b ? a : b;
    }
  }
  return a;
}

// Values at which something changes: zeros, ends of the range, infinities, subnormals, NaNs of every kind.
template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {T(0), T(1), Limits::max(), Limits::lowest(), T(Limits::max() / 2), T(3)};
  if constexpr (std::is_signed_v<T>) values.push_back(T(-1));
  if constexpr (std::is_floating_point_v<T>) {
    const T subnormal = Limits::denorm_min(), infinity = Limits::infinity(), smallest = Limits::min();
    for (const T value : {T(0), subnormal, smallest, infinity}) values.insert(values.end(), {value, -value});
    const std::uint64_t sign = std::uint64_t{1} << (8 * sizeof(T) - 1);
    const std::uint64_t quiet = sizeof(T) == 4 ? 0x7FC00000u : 0x7FF8000000000000u;
    const std::uint64_t signalling = sizeof(T) == 4 ? 0x7F800001u : 0x7FF0000000000001u;
    for (const std::uint64_t bits : {quiet, quiet | 0x1234, signalling})
      values.insert(values.end(), {from_bits<T>(bits), from_bits<T>(bits | sign)});
  }
  return values;
}

// By bytes: it tells -0 from +0 and one NaN from another.
template <class T>
testing::AssertionResult same_bits(const std::vector<T> &found, const std::vector<T> &expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (std::memcmp(&found[i], &expected[i], sizeof(T)) != 0)
      return testing::AssertionFailure() << "element " << i << " is " << +found[i] << " instead of " << +expected[i];
  return testing::AssertionSuccess();
}

// Calls check(target, op, kernel) for all targets and operators.
template <class T, class Check>
void for_each_kernel(const Check &check) {
  for (const std::int64_t target : runnable_targets())
    for (const Op op : kAllOps) {
      SCOPED_TRACE(testing::Message() << target_name(target) << ' ' << type_name(std::int32_t(type_of<T>())) << ' '
                                      << op_name(std::int32_t(op)));
      check(op, kernel_on(target, type_of<T>(), op));
      if (testing::Test::HasFailure()) return;
    }
}

template <class T>
class Kernels : public testing::Test {};
using Types = testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                             std::int64_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(Kernels, Types, );

TYPED_TEST(Kernels, FollowTheRulesForAllPairsOfSpecialValues) {
  using T = TypeParam;
  std::vector<T> left, right;
  for (const T a : special_values<T>())
    for (const T b : special_values<T>()) left.push_back(a), right.push_back(b);
  for_each_kernel<T>([&](Op op, Kernel kernel) {
    std::vector<T> expected(left.size()), found(left.size());
    for (std::size_t i = 0; i < left.size(); ++i) expected[i] = oracle(op, left[i], right[i]);
    kernel(found.data(), left.data(), right.data(), left.size());
    EXPECT_TRUE(same_bits(found, expected));
    kernel(found.data(), right.data(), left.data(), left.size());
    EXPECT_TRUE(same_bits(found, expected)) << "operands exchanged";
    for (std::size_t i = 0; i < left.size(); ++i) kernel(&found[i], &left[i], &right[i], 1);
    EXPECT_TRUE(same_bits(found, expected)) << "one element a call";
  });
}

enum class Alias { none, left, right, both };

// Three operands at given offsets within one arena of bytes, surrounded by bytes that must stay as they are.
template <class T>
class Arena {
 public:
  Arena(std::size_t count, std::mt19937_64 &random) : count_(count), bytes_(3 * region()), random_(random) {}

  void check(Op op, Kernel kernel, Alias alias, std::size_t out, std::size_t left, std::size_t right) {
    for (std::uint8_t &byte : bytes_) byte = std::uint8_t(random_());
    std::uint8_t *const to = bytes_.data() + kMargin + out;
    std::uint8_t *const a =
        alias == Alias::left || alias == Alias::both ? to : bytes_.data() + region() + kMargin + left;
    std::uint8_t *const b =
        alias == Alias::right || alias == Alias::both ? to : bytes_.data() + 2 * region() + kMargin + right;
    std::vector<std::uint8_t> expected = bytes_;
    for (std::size_t i = 0; i < count_; ++i) {
      T x, y;
      std::memcpy(&x, a + i * sizeof(T), sizeof(T));
      std::memcpy(&y, b + i * sizeof(T), sizeof(T));
      const T result = oracle(op, x, y);
      std::memcpy(expected.data() + (to - bytes_.data()) + i * sizeof(T), &result, sizeof(T));
    }
    kernel(to, a, b, count_);
    ASSERT_EQ(std::memcmp(bytes_.data(), expected.data(), bytes_.size()), 0)
        << count_ << " elements, offsets " << out << ", " << left << ", " << right << ", alias " << int(alias);
  }

 private:
  static constexpr std::size_t kMargin = 64;
  // Two margins, and room for an offset of up to 63.
  std::size_t region() const { return count_ * sizeof(T) + 3 * kMargin; }

  std::size_t count_;
  std::vector<std::uint8_t> bytes_;
  std::mt19937_64 &random_;
};

TYPED_TEST(Kernels, ServeEveryLengthWithAnyOperandBeingTheOutput) {
  std::mt19937_64 random(1);
  for_each_kernel<TypeParam>([&](Op op, Kernel kernel) {
    for (std::size_t count = 0; count <= 257; ++count) {
      Arena<TypeParam> arena(count, random);
      for (const Alias alias : {Alias::none, Alias::left, Alias::right, Alias::both}) {
        ASSERT_NO_FATAL_FAILURE(arena.check(op, kernel, alias, random() % 64, random() % 64, random() % 64));
      }
    }
  });
}

TYPED_TEST(Kernels, ServeEveryAlignment) {
  std::mt19937_64 random(2);
  for_each_kernel<TypeParam>([&](Op op, Kernel kernel) {
    for (const std::size_t count : {1, 7, 64, 257}) {
      Arena<TypeParam> arena(count, random);
      for (std::size_t offset = 0; offset < 64; ++offset) {
        ASSERT_NO_FATAL_FAILURE(arena.check(op, kernel, Alias::none, offset, (offset + 1) % 64, 63 - offset));
        ASSERT_NO_FATAL_FAILURE(arena.check(op, kernel, Alias::none, 0, offset, 0));
        ASSERT_NO_FATAL_FAILURE(arena.check(op, kernel, Alias::left, offset, 0, 1));
      }
    }
  });
}

TEST(Kernels8Bit, AreRightForAllPairsOfValues) {
  std::vector<std::int8_t> left, right;
  for (int a = -128; a < 128; ++a)
    for (int b = -128; b < 128; ++b) left.push_back(std::int8_t(a)), right.push_back(std::int8_t(b));
  for_each_kernel<std::int8_t>([&](Op op, Kernel kernel) {
    std::vector<std::int8_t> expected(left.size()), found(left.size());
    for (std::size_t i = 0; i < left.size(); ++i) expected[i] = oracle(op, left[i], right[i]);
    kernel(found.data(), left.data(), right.data(), left.size());
    EXPECT_TRUE(same_bits(found, expected));
  });
}

TEST(Kernel, IsTheBestThatThisCpuHas) {
  const std::vector<std::int64_t> targets = runnable_targets();
  ASSERT_FALSE(targets.empty());
  // Highway numbers better instruction sets lower.
  EXPECT_EQ(kernel(Type::float32, Op::sum), kernel_on(targets.front(), Type::float32, Op::sum));
  if (targets.size() > 1) {
    EXPECT_NE(kernel(Type::float32, Op::sum), kernel_on(targets.back(), Type::float32, Op::sum));
  }
}

TEST(Kernel, TouchesNothingForNoElements) {
  for (std::int32_t type = 0; type < kTypes; ++type)
    for (const Op op : kAllOps) kernel(static_cast<Type>(type), op)(nullptr, nullptr, nullptr, 0);
}

TEST(Kernel, KeepsSubnormalsAndRoundsOnce) {
  const float tiny = std::numeric_limits<float>::denorm_min(), third = 1.0f / 3;
  const std::vector<float> left = {tiny, third, 16777216.0f}, right = {tiny, 3.0f, 1.0f};
  std::vector<float> sum(3), product(3);
  kernel(Type::float32, Op::sum)(sum.data(), left.data(), right.data(), 3);
  kernel(Type::float32, Op::prod)(product.data(), left.data(), right.data(), 3);
  EXPECT_EQ(sum[0], 2 * tiny);
  EXPECT_EQ(sum[2], 16777216.0f);  // a tie, to even
  EXPECT_EQ(product[1], 1.0f);
}

TEST(Names, AreThoseOfThePublicConstants) {
  EXPECT_STREQ(type_name(TUTTI_INT8), "int8");
  EXPECT_STREQ(type_name(TUTTI_FLOAT), "float");
  EXPECT_STREQ(type_name(TUTTI_DOUBLE), "double");
  EXPECT_STREQ(op_name(TUTTI_PROD), "prod");
  EXPECT_EQ(type_bytes(TUTTI_UINT16), 2u);
  EXPECT_EQ(type_bytes(TUTTI_DOUBLE), 8u);
  for (const std::int32_t wrong : {-1, kTypes, 1000}) {
    EXPECT_EQ(type_bytes(wrong), 0u);
    EXPECT_EQ(type_name(wrong), nullptr);
    EXPECT_EQ(op_name(wrong), nullptr);
  }
}

}  // namespace
}  // namespace tutti::reduce

// SPDX-License-Identifier: BSD-3-Clause
//
// What is done to elements before and after they travel: means that do not overflow, sums that are rounded once,
// factors, and a program's own operators; with the combining of ranks done here, in several orders.
#include "reduce/reduction.h"

#include <gtest/gtest.h>

#include <numeric>

#include "reduce/user.h"
#include "support/operator_oracle.h"
#include "support/random.h"

namespace tutti::reduce {
namespace {

constexpr std::size_t kAlways = SIZE_MAX;  // travel as float at every size

// The result that all ranks get when `inputs` (one vector a rank) are combined in the order of ranks, or as a ring
// does, beginning at rank `first`.
template <class T>
std::vector<T> reduce_all(Reduction::What what, const std::vector<std::vector<T>> &inputs,
                          const std::vector<const Created *> &created = {}, std::size_t first = 0) {
  const std::size_t ranks = inputs.size(), count = inputs[0].size();
  what.ranks = static_cast<std::int32_t>(ranks);
  what.count = count;
  std::vector<std::byte> total, one;
  Reduction reduction;
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t rank = (first + i) % ranks;
    if (!created.empty()) what.created = created[rank];
    reduction.choose(what);
    one.resize(count * reduction.element_bytes());
    if (reduction.converts()) reduction.enter(one.data(), inputs[rank].data(), count);
    else std::memcpy(one.data(), inputs[rank].data(), one.size());
    if (i == 0) total = one;
    else reduction.kernel()(total.data(), total.data(), one.data(), count);
  }
  std::vector<T> result(count);
  if (reduction.converts()) reduction.leave(result.data(), total.data(), count);
  else std::memcpy(result.data(), total.data(), total.size());
  return result;
}

template <class T>
std::vector<std::vector<T>> same_everywhere(int ranks, T value, std::size_t count = 3) {
  return std::vector<std::vector<T>>(static_cast<std::size_t>(ranks), std::vector<T>(count, value));
}

test::Bfloat16 bf(double value) { return test::Bfloat16::nearest(value); }
test::Float16 half(double value) { return test::Float16::nearest(value); }

// Sums are rounded, so the last places may differ; and where they are rounded up, the mean must not pass what is
// finite.
void expect_near(double found, double wanted, double tolerance, int ranks) {
  EXPECT_TRUE(std::isfinite(found)) << ranks << " ranks";
  EXPECT_NEAR(found / wanted, 1, tolerance) << ranks << " ranks";
}

TEST(Avg, OfTheLargestNumbersIsFinite) {
  for (int ranks = 1; ranks <= 70; ++ranks)
    for (const double sign : {1.0, -1.0}) {
      const double big = sign * std::numeric_limits<double>::max();
      const float large = static_cast<float>(sign) * std::numeric_limits<float>::max();
      const auto most = test::Bfloat16::from_bits(sign > 0 ? 0x7F7F : 0xFF7F);
      const auto small = test::Float16::from_bits(sign > 0 ? 0x7BFF : 0xFBFF);
      expect_near(reduce_all<double>({Type::float64, Op::avg}, same_everywhere(ranks, big))[0], big, 1e-14, ranks);
      expect_near(reduce_all<float>({Type::float32, Op::avg}, same_everywhere(ranks, large))[0], large, 1e-5, ranks);
      for (const std::size_t widen : {std::size_t{0}, kAlways}) {
        const auto mean = reduce_all({Type::bfloat16, Op::avg, nullptr, 1, 0, widen}, same_everywhere(ranks, most))[0];
        expect_near(mean.value(), most.value(), widen == 0 ? ranks / 256.0 : 1.0 / 256, ranks);
        EXPECT_EQ(reduce_all({Type::float16, Op::avg, nullptr, 1, 0, widen}, same_everywhere(ranks, small))[0].bits,
                  small.bits);
      }
      const auto complex =
          reduce_all({Type::complex_float, Op::avg}, same_everywhere(ranks, std::complex<float>(large, -large)))[0];
      expect_near(complex.real(), large, 1e-5, ranks);
      expect_near(complex.imag(), -large, 1e-5, ranks);
    }
}

// A sum that rounding made larger than the largest number times the number of ranks.
TEST(Avg, OfFiniteNumbersNeverPassesTheLargest) {
  const float sum = std::numeric_limits<float>::max(), divisor = 0.75f;
  float mean = 0;
  mean_kernel(Type::float32)(&mean, &sum, &divisor, 1);
  EXPECT_EQ(mean, std::numeric_limits<float>::max());
  const float half_sum = -70000, one = 1, infinity = INFINITY;
  mean_kernel(Type::float16)(&mean, &half_sum, &one, 1);
  EXPECT_EQ(mean, -65504.0f);
  mean_kernel(Type::float16)(&mean, &infinity, &one, 1);
  EXPECT_EQ(mean, INFINITY);
}

TEST(Avg, OfInfinitiesAndNansIsWhatItShouldBe) {
  auto inputs = same_everywhere(3, 1.0);
  inputs[1] = {INFINITY, NAN, INFINITY};
  inputs[2][2] = -INFINITY;
  const std::vector<double> mean = reduce_all<double>({Type::float64, Op::avg}, inputs);
  EXPECT_EQ(mean[0], INFINITY);
  EXPECT_TRUE(std::isnan(mean[1]));
  EXPECT_TRUE(std::isnan(mean[2]));
}

// 8 ranks x 60000: the sum overflows, the mean does not.
TEST(Avg, case_51_OfFloat16DoesNotOverflow) {
  EXPECT_EQ(reduce_all<test::Float16>({Type::float16, Op::avg}, same_everywhere(8, half(60000)))[0].bits,
            half(60000).bits);
  EXPECT_EQ(reduce_all<test::Float16>({Type::float16, Op::avg}, same_everywhere(8, half(std::ldexp(3, -24))))[0].bits,
            3)
      << "and subnormal numbers are not lost";
}

TEST(Avg, OfExactSumsIsRoundedOnce) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    std::vector<std::vector<double>> inputs;
    for (int rank = 0; rank < ranks; ++rank) inputs.push_back({rank + 1.0, rank * 3.0 - 5, rank == 0 ? 1.0 : 0.0});
    const std::vector<double> mean = reduce_all<double>({Type::float64, Op::avg}, inputs);
    for (std::size_t i = 0; i < 3; ++i) {
      double sum = 0;
      for (const auto &input : inputs) sum += input[i];
      EXPECT_EQ(mean[i], sum / ranks) << ranks;
    }
  }
}

template <class T>
void check_integers(Type type) {
  test::Random random(7);
  for (int ranks = 1; ranks <= 9; ++ranks) {
    std::vector<std::vector<T>> inputs;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<T> mine = {std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), T(rank), T(0),
                             T(rank % 2 == 0 ? -1 : 0)};
      for (int i = 0; i < 200; ++i) mine.push_back(static_cast<T>(random.next()));
      inputs.push_back(mine);
    }
    const std::vector<T> mean = reduce_all<T>({type, Op::avg}, inputs);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      __extension__ __int128 sum = 0;
      for (const auto &input : inputs) sum += input[i];
      ASSERT_EQ(mean[i], static_cast<T>(sum / ranks)) << type_name(int(type)) << ' ' << ranks << " element " << i;
    }
  }
}

TEST(Avg, OfIntegersIsThatOfTheExactSumTowardsZero) {
  check_integers<std::int8_t>(Type::int8);
  check_integers<std::uint8_t>(Type::uint8);
  check_integers<std::int16_t>(Type::int16);
  check_integers<std::uint16_t>(Type::uint16);
  check_integers<std::int32_t>(Type::int32);
  check_integers<std::uint32_t>(Type::uint32);
  check_integers<std::int64_t>(Type::int64);
  check_integers<std::uint64_t>(Type::uint64);
}

// 16 ranks, bfloat16, one rank holds 256 and the others 1. 271 lies between 270 and 272, which is even.
TEST(Sum, case_51_OfBfloat16ThatTravelsAsFloatIsRoundedOnceWhoeverHoldsTheLargeOne) {
  for (std::size_t holder = 0; holder < 16; ++holder)
    for (std::size_t first : {std::size_t{0}, std::size_t{5}}) {
      auto inputs = same_everywhere(16, bf(1));
      inputs[holder].assign(3, bf(256));
      const Reduction::What what = {Type::bfloat16, Op::sum, nullptr, 1, 0, kAlways};
      EXPECT_EQ(reduce_all(what, inputs, {}, first)[2].value(), 272) << holder;
    }
}

TEST(Sum, Of16BitFloatsTravelsAsFloatUpToTheSizeThatWasSet) {
  Reduction reduction;
  const auto travelling = [&](Op op, int ranks, std::size_t count) {
    reduction.choose({Type::bfloat16, op, nullptr, ranks, count, 16384});
    return reduction.element_bytes();
  };
  EXPECT_EQ(travelling(Op::sum, 3, 8192), 4u);
  EXPECT_EQ(travelling(Op::sum, 3, 8193), 2u);
  EXPECT_EQ(travelling(Op::prod, 3, 8192), 4u);
  EXPECT_EQ(travelling(Op::sum, 2, 8192), 2u) << "one sum of two is rounded once anyhow";
  EXPECT_EQ(travelling(Op::max, 3, 8192), 2u) << "nothing is rounded";
}

TEST(Sum, Of16BitFloatsThatTravelAsTheyAreIsRoundedOnceAHop) {
  test::Random random(3);
  std::vector<std::vector<test::Float16>> inputs(5, std::vector<test::Float16>(1000));
  for (auto &input : inputs)
    for (auto &value : input) value = half(static_cast<double>(random.between(-3000, 3000)) / 7);
  const auto found = reduce_all<test::Float16>({Type::float16, Op::sum}, inputs);
  for (std::size_t i = 0; i < 1000; ++i) {
    test::Float16 sum = inputs[0][i];
    for (std::size_t rank = 1; rank < 5; ++rank) sum = half(sum.value() + inputs[rank][i].value());
    ASSERT_EQ(found[i].bits, sum.bits) << i;
  }
}

template <class T>
Created premul(Type type, T factor) {
  Created created = {.op = Op::premul_sum, .element_bytes = sizeof(T), .type = type};
  std::memcpy(created.factor.data(), &factor, sizeof(T));
  return created;
}

TEST(PremulSum, MultipliesEveryRanksElementsByItsOwnFactor) {
  const Created two = premul(Type::int16, std::int16_t(2)), minus = premul(Type::int16, std::int16_t(-3));
  std::vector<std::vector<std::int16_t>> inputs = {std::vector<std::int16_t>(2000), std::vector<std::int16_t>(2000)};
  std::iota(inputs[0].begin(), inputs[0].end(), std::int16_t(0));
  std::iota(inputs[1].begin(), inputs[1].end(), std::int16_t(17));
  const auto sum = reduce_all<std::int16_t>({Type::int16, Op::premul_sum}, inputs, {&two, &minus});
  for (std::size_t i = 0; i < 2000; ++i) ASSERT_EQ(sum[i], 2 * inputs[0][i] - 3 * inputs[1][i]);

  using Complex = std::complex<double>;
  const Created turn = premul(Type::complex_double, Complex(0, 1)),
                half_ = premul(Type::complex_double, Complex(0.5, 0));
  const auto turned =
      reduce_all<Complex>({Type::complex_double, Op::premul_sum},
                          {std::vector<Complex>(300, {1, 2}), std::vector<Complex>(300, {4, 6})}, {&turn, &half_});
  EXPECT_EQ(turned[299], Complex(0, 4));
}

TEST(PremulSum, Of16BitFloatsIsRoundedOnce) {
  const Created factor = premul(Type::bfloat16, bf(1.0 + 1.0 / 128));
  const std::vector<const Created *> factors(3, &factor);
  const Reduction::What what = {Type::bfloat16, Op::premul_sum, nullptr, 1, 0, kAlways};
  const double x = bf(1.9).value();
  EXPECT_EQ(reduce_all(what, same_everywhere(3, bf(1.9)), factors)[0].bits, bf(3 * x * (1.0 + 1.0 / 128)).bits);
}

// Strings of three letters; `in` goes before `in_out`: only the first letter of the first and the last of the last
// stay.
struct Three {
  char first, middle, last;
};
void join(const void *in, void *in_out, std::size_t count, void *user) {
  const auto *left = static_cast<const Three *>(in);
  auto *right = static_cast<Three *>(in_out);
  for (std::size_t i = 0; i < count; ++i) right[i] = {left[i].first, right[i].first, right[i].last};
  *static_cast<std::size_t *>(user) += count;
}

TEST(User, OperandsKeepTheirOrderWhicheverOfThemTheOutputIs) {
  std::size_t combined = 0;
  const Created op = {.op = Op::user, .element_bytes = sizeof(Three), .function = join, .user = &combined};
  for (const std::size_t count : {1, 5, 10'000}) {
    combined = 0;
    const std::vector<Three> left(count, {'a', 'b', 'c'}), right(count, {'x', 'y', 'z'});
    std::vector<Three> out(count), over_left = left, over_right = right;
    run_user(out.data(), left.data(), right.data(), count, &op);
    run_user(over_left.data(), over_left.data(), right.data(), count, &op);
    run_user(over_right.data(), left.data(), over_right.data(), count, &op);
    for (const std::vector<Three> &result : {out, over_left, over_right})
      for (const Three &three : result) ASSERT_TRUE(three.first == 'a' && three.middle == 'x' && three.last == 'z');
    EXPECT_EQ(combined, 3 * count);
  }
}

struct alignas(32) Wide {
  double values[4];
};
void add_aligned(const void *in, void *in_out, std::size_t count, void *user) {
  auto *misaligned = static_cast<std::size_t *>(user);
  for (const void *pointer : {in, static_cast<const void *>(in_out)})
    *misaligned += reinterpret_cast<std::uintptr_t>(pointer) % alignof(Wide) != 0 ? 1 : 0;
  const auto *left = static_cast<const Wide *>(in);
  auto *right = static_cast<Wide *>(in_out);
  if (*misaligned != 0) return;
  for (std::size_t i = 0; i < count; ++i)
    for (int k = 0; k < 4; ++k) right[i].values[k] += left[i].values[k];
}

TEST(User, FunctionsGetAlignedElementsFromAnywhere) {
  std::size_t misaligned = 0;
  const Created op = {.op = Op::user, .element_bytes = sizeof(Wide), .function = add_aligned, .user = &misaligned};
  constexpr std::size_t kCount = 1000, kBytes = kCount * sizeof(Wide);
  std::vector<std::byte> left(kBytes + 64), right(kBytes + 64), out(kBytes + 64);
  for (const std::size_t offset : {0, 1, 8, 16, 31, 40}) {
    for (std::size_t at = 0; at < 4 * kCount; ++at) {
      const double value = static_cast<double>(at);
      std::memcpy(&left[offset + 8 * at], &value, 8);
      std::memcpy(&right[at * 8], &value, 8);
    }
    run_user(&out[offset], &left[offset], right.data(), kCount, &op);
    ASSERT_EQ(misaligned, 0u) << offset;
    for (std::size_t at = 0; at < 4 * kCount; ++at) {
      double value = 0;
      std::memcpy(&value, &out[offset + 8 * at], 8);
      ASSERT_EQ(value, 2.0 * static_cast<double>(at));
    }
  }
  EXPECT_EQ(alignment_of(1), 1u);
  EXPECT_EQ(alignment_of(24), 8u);
  EXPECT_EQ(alignment_of(4096), 64u);
}

TEST(Created, HandlesOfFreedOperatorsAreNotThoseOfNewOnes) {
  const Created op = {.op = Op::user, .element_bytes = 3, .function = join};
  const std::int32_t first = *create(op);
  EXPECT_TRUE(is_handle(first));
  EXPECT_EQ(find(first)->element_bytes, 3u);
  EXPECT_TRUE(destroy(first));
  EXPECT_FALSE(destroy(first));
  const std::int32_t second = *create(op);
  EXPECT_NE(first, second);
  EXPECT_FALSE(find(first));
  EXPECT_TRUE(find(second));
  EXPECT_TRUE(destroy(second));
  for (const std::int32_t nonsense : {-1, 0, 3, INT32_MAX, 1 << 30}) EXPECT_FALSE(find(nonsense));
}

TEST(Created, ManyCanLiveAndTooManyAreAnError) {
  const Created op = {.op = Op::user, .element_bytes = 1, .function = join};
  std::vector<std::int32_t> handles;
  Result<std::int32_t> next = create(op);
  for (; next; next = create(op)) handles.push_back(*next);
  EXPECT_EQ(next.error().code, Code::limit);
  EXPECT_EQ(handles.size(), 8192u);
  for (const std::int32_t handle : handles) EXPECT_TRUE(destroy(handle));
  EXPECT_TRUE(destroy(*create(op)));
}

}  // namespace
}  // namespace tutti::reduce

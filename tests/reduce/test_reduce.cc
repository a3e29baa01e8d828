// SPDX-License-Identifier: BSD-3-Clause
//
// Every kernel, on every instruction set that this CPU has, against the rules of docs/OPERATORS.md computed one element
// at a time: every offset from 0 to 63 with every length from 0 to 257, operands that are the output, and nothing
// written beside it.
#include "reduce/kernels.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>

#include "reduce/targets.h"
#include "support/operator_oracle.h"
#include "support/random.h"

namespace tutti::reduce {
namespace {

using test::Random;

constexpr std::size_t kLongest = 257, kOffsets = 64;

using Bytes = std::vector<std::uint8_t>;

// A type with an operator that has a kernel: avg has none of its own.
struct Case {
  tutti_type type;
  tutti_op op;
  std::size_t bytes() const { return type_bytes(type); }
  Kernel kernel() const { return reduce::kernel(static_cast<Type>(type), static_cast<Op>(op)); }
  std::string name() const { return std::string(type_name(type)) + "_" + op_name(op); }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (tutti_type type = 0; type < kSizedTypes; ++type)
    for (const tutti_op op : test::operators_of(type))
      if (op != TUTTI_AVG) all.push_back({type, op});
  return all;
}

Bytes expected_of(const Case &which, const Bytes &left, const Bytes &right) {
  Bytes result(left.size());
  for (std::size_t at = 0; at < left.size(); at += which.bytes())
    test::oracle(which.type, which.op, &result[at], &left[at], &right[at]);
  return result;
}

// Any bits, with values among them that many kernels treat apart: zeros (and so falsehoods), ties, special values.
Bytes operands(const Case &which, std::size_t count, Random &random) {
  Bytes all(count * which.bytes());
  for (std::uint8_t &byte : all) byte = std::uint8_t(random.next());
  test::with_type(which.type, [&]<class T>(T) {
    const std::vector<T> special = test::special_values<T>();
    for (std::size_t i = 0; i < count; ++i) {
      if (random.one_in(2)) std::memcpy(&all[i * sizeof(T)], &special[random.below(special.size())], sizeof(T));
      else if (random.one_in(4)) std::memset(&all[i * sizeof(T)], 0, sizeof(T));
    }
  });
  return all;
}

// Memory with pages around it that nobody may read.
class GuardedPages {
 public:
  GuardedPages() {
    void *all = ::mmap(nullptr, 4 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory_ = static_cast<std::uint8_t *>(all);
    const bool made = all != MAP_FAILED && ::mprotect(memory_ + kPage, 2 * kPage, PROT_READ | PROT_WRITE) == 0;
    if (!made) std::abort();
  }
  ~GuardedPages() { ::munmap(memory_, 4 * kPage); }
  GuardedPages(const GuardedPages &) = delete;
  GuardedPages &operator=(const GuardedPages &) = delete;
  std::uint8_t *begin() const { return memory_ + kPage; }
  std::uint8_t *end() const { return begin() + 2 * kPage; }

 private:
  static constexpr std::size_t kPage = 4096;  // twice that is more than the longest operand has
  std::uint8_t *memory_;
};

template <class Check>
void on_each_target(const Check &check) {
  for (const std::int64_t target : runnable_targets()) {
    SCOPED_TRACE(target_name(target));
    const OnTarget on(target);
    check();
    if (testing::Test::HasFailure()) return;
  }
}

testing::AssertionResult same(const Case &which, const Bytes &found, const Bytes &expected) {
  for (std::size_t at = 0; at < expected.size(); ++at)
    if (found[at] != expected[at])
      return testing::AssertionFailure() << "element " << at / which.bytes() << ", byte " << at % which.bytes()
                                         << " is " << int(found[at]) << " instead of " << int(expected[at]);
  return testing::AssertionSuccess();
}

class Kernels : public testing::TestWithParam<Case> {};

TEST_P(Kernels, case_52_FollowTheRulesForAllPairsOfSpecialValues) {
  const Case which = GetParam();
  Bytes left, right;
  test::with_type(which.type, [&]<class T>(T) {
    for (const T &a : test::special_values<T>())
      for (const T &b : test::special_values<T>()) {
        const auto *x = reinterpret_cast<const std::uint8_t *>(&a), *y = reinterpret_cast<const std::uint8_t *>(&b);
        left.insert(left.end(), x, x + sizeof(T));
        right.insert(right.end(), y, y + sizeof(T));
      }
  });
  const Bytes expected = expected_of(which, left, right);
  const std::size_t count = left.size() / which.bytes();
  on_each_target([&] {
    Bytes found(left.size());
    which.kernel()(found.data(), left.data(), right.data(), count);
    EXPECT_TRUE(same(which, found, expected));
    which.kernel()(found.data(), right.data(), left.data(), count);
    EXPECT_TRUE(same(which, found, expected)) << "operands exchanged";
    std::ranges::fill(found, 0);
    for (std::size_t at = 0; at < left.size(); at += which.bytes())
      which.kernel()(&found[at], &left[at], &right[at], 1);
    EXPECT_TRUE(same(which, found, expected)) << "one element a call";
  });
}

// Operands at every offset, each written once; what a kernel must give is the beginning of one expected vector.
TEST_P(Kernels, case_52_ServeEveryOffsetWithEveryLength) {
  const Case which = GetParam();
  Random random(1);
  const Bytes left = operands(which, kLongest, random), right = operands(which, kLongest, random);
  const Bytes expected = expected_of(which, left, right);
  const std::size_t most = kLongest * which.bytes();
  std::vector<Bytes> lefts, rights;
  for (std::size_t offset = 0; offset < kOffsets; ++offset) {
    lefts.emplace_back(offset + most), rights.emplace_back(offset + most);
    std::ranges::copy(left, lefts.back().begin() + std::ptrdiff_t(offset));
    std::ranges::copy(right, rights.back().begin() + std::ptrdiff_t(offset));
  }
  constexpr std::uint8_t kCanary = 0x5A;
  Bytes around(kOffsets, kCanary), out(kOffsets + most + kOffsets, kCanary);
  on_each_target([&] {
    const Kernel kernel = which.kernel();
    for (std::size_t offset = 0; offset < kOffsets; ++offset) {
      const std::size_t left_at = (offset + 13) % kOffsets, right_at = kOffsets - 1 - offset;
      for (std::size_t length = 0; length <= kLongest; ++length) {
        const std::size_t bytes = length * which.bytes();
        std::uint8_t *to = &out[offset];
        kernel(to, &lefts[left_at][left_at], &rights[right_at][right_at], length);
        ASSERT_EQ(std::memcmp(to, expected.data(), bytes), 0) << length << " elements at offset " << offset;
        ASSERT_EQ(std::memcmp(to + bytes, around.data(), kOffsets), 0) << "beyond " << length << " at " << offset;
        ASSERT_EQ(std::memcmp(out.data(), around.data(), offset), 0) << "before " << length << " at " << offset;
        std::memset(to, kCanary, bytes);
      }
    }
  });
}

TEST_P(Kernels, MayWriteOverTheirOperands) {
  const Case which = GetParam();
  Random random(2);
  const Bytes left = operands(which, kLongest, random), right = operands(which, kLongest, random);
  const Bytes expected = expected_of(which, left, right), twice = expected_of(which, left, left);
  on_each_target([&] {
    const Kernel kernel = which.kernel();
    for (std::size_t length = 0; length <= kLongest; ++length) {
      const std::size_t bytes = length * which.bytes(), offset = length % kOffsets;
      Bytes both(offset + bytes);
      const auto fill = [&](const Bytes &from) { return std::memcpy(both.data() + offset, from.data(), bytes); };
      const auto holds = [&](const Bytes &wanted) {
        return std::memcmp(both.data() + offset, wanted.data(), bytes) == 0;
      };
      void *to = fill(left);
      kernel(to, to, right.data(), length);
      ASSERT_TRUE(holds(expected)) << length << " elements, the output is the left operand";
      fill(right);
      kernel(to, left.data(), to, length);
      ASSERT_TRUE(holds(expected)) << length << " elements, the output is the right operand";
      fill(left);
      kernel(to, to, to, length);
      ASSERT_TRUE(holds(twice)) << length << " elements, all three are one";
    }
  });
}

// Operands that end where their memory does, and that begin where it does.
TEST_P(Kernels, ReadNothingBesideTheirOperands) {
  const Case which = GetParam();
  const GuardedPages left, right;
  on_each_target([&] {
    const Kernel kernel = which.kernel();
    Bytes out(kLongest * which.bytes());
    for (std::size_t length = 0; length <= kLongest; ++length) {
      const std::size_t bytes = length * which.bytes();
      kernel(out.data(), left.end() - bytes, right.end() - bytes, length);
      kernel(out.data(), left.begin(), right.begin(), length);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Every, Kernels, testing::ValuesIn(cases()),
                         [](const auto &each) { return each.param.name(); });

TEST(Kernels8Bit, AreRightForAllPairsOfValues) {
  for (const tutti_type type : {TUTTI_INT8, TUTTI_UINT8, TUTTI_BOOL, TUTTI_BYTE})
    for (const tutti_op op : test::operators_of(type)) {
      if (op == TUTTI_AVG) continue;
      const Case which{type, op};
      SCOPED_TRACE(which.name());
      Bytes left, right;
      for (int a = 0; a < 256; ++a)
        for (int b = 0; b < 256; ++b) left.push_back(std::uint8_t(a)), right.push_back(std::uint8_t(b));
      const Bytes expected = expected_of(which, left, right);
      on_each_target([&] {
        Bytes found(left.size());
        which.kernel()(found.data(), left.data(), right.data(), left.size());
        EXPECT_TRUE(same(which, found, expected));
      });
    }
}

// All numbers of a 16-bit format, and floats on and around every boundary between two of them.
template <class Format>
void check_conversions(Type type) {
  std::vector<std::uint16_t> all(65536);
  for (unsigned bits = 0; bits < 65536; ++bits) all[bits] = std::uint16_t(bits);
  std::vector<float> floats;
  for (unsigned bits = 0; bits < 65535; ++bits) {
    const double low = Format::from_bits(bits).value(), high = Format::from_bits(bits + 1).value();
    const float middle = static_cast<float>((low + high) / 2);
    floats.insert(floats.end(), {static_cast<float>(low), middle, std::nextafterf(middle, INFINITY),
                                 std::nextafterf(middle, -INFINITY)});
  }
  for (const float value : test::special_values<float>()) floats.push_back(value);
  on_each_target([&] {
    std::vector<float> wide(all.size());
    widening(type)(wide.data(), all.data(), all.size());
    for (unsigned bits = 0; bits < 65536; ++bits) {
      const auto value = static_cast<float>(Format::from_bits(bits).value());
      if (std::isnan(value)) ASSERT_TRUE(std::isnan(wide[bits])) << bits;
      else ASSERT_EQ(std::memcmp(&wide[bits], &value, 4), 0) << bits << " became " << wide[bits];
    }
    std::vector<std::uint16_t> narrow(floats.size());
    narrowing(type)(narrow.data(), floats.data(), floats.size());
    for (std::size_t i = 0; i < floats.size(); ++i)
      ASSERT_EQ(narrow[i], Format::nearest(floats[i]).bits) << std::hexfloat << floats[i];
  });
}

TEST(Conversions, OfFloat16AreExactAndToNearestEven) { check_conversions<test::Float16>(Type::float16); }
TEST(Conversions, OfBfloat16AreExactAndToNearestEven) { check_conversions<test::Bfloat16>(Type::bfloat16); }

TEST(Conversions, WriteNothingBesideTheirOutput) {
  on_each_target([&] {
    for (std::size_t count = 0; count <= 70; ++count) {
      const std::vector<std::uint16_t> in(count, 0x3C00);
      std::vector<float> wide(count + 1, 7.0f);
      widening(Type::float16)(wide.data(), in.data(), count);
      EXPECT_EQ(std::ranges::count(wide, 1.0f), std::ptrdiff_t(count));
      EXPECT_EQ(wide.back(), 7.0f);
      std::vector<std::uint16_t> narrow(count + 1, 77);
      narrowing(Type::float16)(narrow.data(), wide.data(), count);
      EXPECT_EQ(std::ranges::count(narrow, 0x3C00), std::ptrdiff_t(count));
      EXPECT_EQ(narrow.back(), 77);
    }
  });
}

TEST(Kernel, IsTheBestThatThisCpuHas) {
  const std::vector<std::int64_t> targets = runnable_targets();
  ASSERT_FALSE(targets.empty());
  const auto on = [](std::int64_t target) {
    const OnTarget here(target);
    return kernel(Type::float32, Op::sum);
  };
  // Highway numbers better instruction sets lower.
  EXPECT_EQ(kernel(Type::float32, Op::sum), on(targets.front()));
  if (targets.size() > 1) {
    EXPECT_NE(kernel(Type::float32, Op::sum), on(targets.back()));
  }
}

TEST(Kernel, IsOfTheInstructionSetsThatAreAllowed) {
  const Kernel best = kernel(Type::float32, Op::sum);
  use_at_most("none");
  EXPECT_STREQ(instruction_set_in_use(), "EMU128");
  EXPECT_NE(kernel(Type::float32, Op::sum), best);
  use_at_most("auto");
  EXPECT_EQ(kernel(Type::float32, Op::sum), best);
}

TEST(Kernel, TouchesNothingForNoElements) {
  for (const Case &which : cases()) which.kernel()(nullptr, nullptr, nullptr, 0);
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

TEST(Types, AgreeWithTheTableOfTheTests) {
  for (tutti_type type = 0; type < kSizedTypes; ++type) {
    const std::vector<tutti_op> &ops = test::operators_of(type);
    for (tutti_op op = 0; op < kBuiltinOps; ++op)
      EXPECT_EQ(takes_builtin(type, op), std::ranges::find(ops, op) != ops.end()) << type_name(type) << op_name(op);
    test::with_type(type, [&]<class T>(T) { EXPECT_EQ(type_bytes(type), sizeof(T)) << type_name(type); });
    EXPECT_TRUE(takes(static_cast<Type>(type), Op::user));
  }
  EXPECT_EQ(operators_of(Type::boolean), "land, lor, lxor, user");
  EXPECT_EQ(types_with(Op::maxloc), "float_int, double_int, long_int, 2int, short_int");
}

TEST(Names, AreThoseOfThePublicConstants) {
  EXPECT_STREQ(type_name(TUTTI_INT8), "int8");
  EXPECT_STREQ(type_name(TUTTI_FLOAT), "float");
  EXPECT_STREQ(type_name(TUTTI_DOUBLE), "double");
  EXPECT_STREQ(type_name(TUTTI_BFLOAT16), "bfloat16");
  EXPECT_STREQ(type_name(TUTTI_SHORT_INT), "short_int");
  EXPECT_STREQ(op_name(TUTTI_PROD), "prod");
  EXPECT_STREQ(op_name(TUTTI_MAXLOC), "maxloc");
  EXPECT_EQ(type_bytes(TUTTI_OP_ELEMENT), 0u);
  for (const std::int32_t wrong : {-1, kTypes, 1000}) {
    EXPECT_EQ(type_bytes(wrong), 0u);
    EXPECT_EQ(type_name(wrong), nullptr);
    EXPECT_EQ(op_name(wrong), nullptr);
  }
}

}  // namespace
}  // namespace tutti::reduce

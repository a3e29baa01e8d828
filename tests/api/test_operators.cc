// SPDX-License-Identifier: BSD-3-Clause
//
// Every type with every operator through the C interface, with ranks as threads: right results, the same bits on all
// ranks whatever the algorithm, and operators that a program makes.
#include <algorithm>
#include <array>

#include "support/exact_elements.h"
#include "support/matrices.h"
#include "support/random.h"
#include "support/thread_ranks.h"

namespace tutti::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr const char *kAlgorithms[] = {"direct", "recursive_doubling", "recursive_multiplying", "ring", "circulant"};

Start with_algorithm(const std::string &name, const std::string &widen = "16K") {
  Start start;
  start.everywhere = {{"TUTTI_ALGO", "allreduce:" + name}, {"TUTTI_WIDEN_BYTES", widen}};
  return start;
}

template <class T>
void check(tutti_comm *comm, int rank, int ranks, tutti_type type, tutti_op op, std::size_t count, bool in_place) {
  std::vector<T> in(count), out(count + 1);
  std::memset(static_cast<void *>(out.data()), 0x5A, (count + 1) * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T mine = element<T>(rank, i, op);
    std::memcpy(&(in_place ? out : in)[i], &mine, sizeof(T));
  }
  const std::vector<T> before = in;
  ASSERT_EQ(tutti_allreduce(in_place ? TUTTI_IN_PLACE : in.data(), out.data(), count, type, op, comm), TUTTI_SUCCESS)
      << last_error().text;
  // One rank's pair passes as it is, padding included.
  if (!(is_pair<T> && ranks == 1)) {
    const std::vector<T> expected = expected_of<T>(op, 0, ranks, count);
    ASSERT_TRUE(count == 0 || std::memcmp(out.data(), expected.data(), count * sizeof(T)) == 0)
        << "type " << type << " operator " << op << " count " << count << " in place " << in_place;
  }
  const auto *beyond = reinterpret_cast<const std::uint8_t *>(&out[count]);
  ASSERT_EQ(std::count(beyond, beyond + sizeof(T), 0x5A), std::ptrdiff_t(sizeof(T))) << "wrote beyond the result";
  ASSERT_TRUE(in.empty() || std::memcmp(in.data(), before.data(), count * sizeof(T)) == 0) << "wrote to the input";
}

class EveryTypeAndOperator : public testing::TestWithParam<int> {};

TEST_P(EveryTypeAndOperator, GivesTheRightResult) {
  const int size = GetParam();
  for (const char *algorithm : kAlgorithms) {
    SCOPED_TRACE(algorithm);
    ThreadRanks ranks(size, with_algorithm(algorithm));
    ASSERT_TRUE(ranks.up()) << ranks.errors();
    ranks.each([&](int rank, tutti_comm *comm) {
      for (tutti_type type = 0; type < TUTTI_OP_ELEMENT; ++type)
        for (const tutti_op op : operators_of(type))
          for (const std::size_t count : {0, 1, 13, 9001})
            for (const bool in_place : {false, true})
              with_type(type, [&]<class T>(T) { check<T>(comm, rank, size, type, op, count, in_place); });
    });
  }
}

// Any bits at all: NaNs of every kind, infinities, cancellation. Nobody knows the right sum, but all have the same one.
TEST_P(EveryTypeAndOperator, case_43_GivesTheSameBitsOnAllRanksAndFromRunToRun) {
  const int size = GetParam();
  constexpr std::size_t kCount = 1237;
  for (const char *algorithm : kAlgorithms) {
    SCOPED_TRACE(algorithm);
    ThreadRanks ranks(size, with_algorithm(algorithm, algorithm[0] == 'r' ? "0" : "16K"));
    ASSERT_TRUE(ranks.up()) << ranks.errors();
    for (tutti_type type = 0; type < TUTTI_OP_ELEMENT; ++type)
      for (const tutti_op op : operators_of(type)) {
        const std::size_t bytes = kCount * tutti_type_bytes(type);
        std::vector<std::array<Bytes, 2>> results(static_cast<std::size_t>(size), {Bytes(bytes), Bytes(bytes)});
        ranks.each([&](int rank, tutti_comm *comm) {
          Random random(static_cast<std::uint64_t>(rank) * 1000 + static_cast<std::uint64_t>(type));
          Bytes in(bytes + 1);
          for (std::uint8_t &byte : in) byte = static_cast<std::uint8_t>(random.next());
          // The second time from an odd address: neither data nor result may depend on it.
          for (std::size_t run = 0; run < 2; ++run) {
            if (run == 1) std::copy_backward(in.begin(), in.end() - 1, in.end());
            ASSERT_EQ(tutti_allreduce(in.data() + run, results[static_cast<std::size_t>(rank)][run].data(), kCount,
                                      type, op, comm),
                      TUTTI_SUCCESS)
                << last_error().text;
          }
        });
        if (size == 1) continue;
        for (const std::array<Bytes, 2> &result : results)
          for (const Bytes &run : result) ASSERT_EQ(run, results[0][0]) << "type " << type << " operator " << op;
      }
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
INSTANTIATE_TEST_SUITE_P(Ranks, EveryTypeAndOperator, testing::Values(1, 3));  // the same code for more takes minutes
#else
INSTANTIATE_TEST_SUITE_P(Ranks, EveryTypeAndOperator, testing::Values(1, 2, 3, 5, 8));
#endif

// A NaN at each rank in turn, for every length: every rank gets it, and where there is none the minimum.
TEST(MinMax, case_49_NanOnAnyRankWinsAtEveryLength) {
  ThreadRanks ranks(4);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    for (const tutti_type type : {TUTTI_FLOAT, TUTTI_DOUBLE, TUTTI_FLOAT16, TUTTI_BFLOAT16})
      with_type(type, [&]<class T>(T) {
        const auto make = [](double value) {
          if constexpr (is_half<T>) return T::nearest(value);
          else return static_cast<T>(value);
        };
        for (int holder = 0; holder < 4; ++holder)
          for (std::size_t length = 1; length <= 67; length += holder == 0 ? 1 : 11)
            for (const tutti_op op : {TUTTI_MIN, TUTTI_MAX}) {
              std::vector<T> values(length, make(rank == 1 ? -0.0 : 0.0)), expected(length);
              for (std::size_t i = 0; i < length; ++i) {
                const bool nan = i % 3 == 0;
                if (nan) values[i] = make(rank == holder ? NAN : rank + 1.0);
                expected[i] = nan ? make(NAN) : make(op == TUTTI_MIN ? -0.0 : 0.0);
                if constexpr (std::is_floating_point_v<T>)
                  if (nan) expected[i] = quiet_nan<T>();  // of the compiler's NAN only the value is known
              }
              ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, values.data(), length, type, op, comm), TUTTI_SUCCESS);
              ASSERT_EQ(std::memcmp(values.data(), expected.data(), length * sizeof(T)), 0)
                  << "type " << type << " operator " << op << " NaN on rank " << holder << " length " << length;
            }
      });
  });
}

// 256 on one rank in turn and 1 on the others. Exact is 271; rounded at the end to 272.
TEST(Sum, case_51_Bfloat16DoesNotStall) {
  ThreadRanks ranks(16);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    for (int holder = 0; holder < 16; ++holder) {
      std::vector<Bfloat16> values(100, Bfloat16::nearest(rank == holder ? 256 : 1));
      ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, values.data(), 100, TUTTI_BFLOAT16, TUTTI_SUM, comm), TUTTI_SUCCESS);
      for (const Bfloat16 value : values) ASSERT_EQ(value.value(), 272) << holder;
    }
    // Too large to travel as float: rounded once per hop, 15 times at most, each time by half of what the last place of
    // a number up to 512 is worth.
    for (int holder = 0; holder < 16; ++holder) {
      std::vector<Bfloat16> values(20'000, Bfloat16::nearest(rank == holder ? 256 : 1));
      ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, values.data(), 20'000, TUTTI_BFLOAT16, TUTTI_SUM, comm), TUTTI_SUCCESS);
      for (const Bfloat16 value : values) ASSERT_NEAR(value.value(), 271, 15) << holder;
    }
    std::vector<Float16> large(100, Float16::nearest(60000));
    ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, large.data(), 100, TUTTI_FLOAT16, TUTTI_AVG, comm), TUTTI_SUCCESS);
    for (const Float16 value : large) ASSERT_EQ(value.bits, Float16::nearest(60000).bits);
  });
}

TEST(UserOperators, case_48_OperandsThatDoNotCommuteKeepTheOrderOfRanks) {
  for (int size = 1; size <= 9; ++size) {
    ThreadRanks ranks(size);
    ASSERT_TRUE(ranks.up()) << ranks.errors();
    ranks.each([size](int rank, tutti_comm *comm) {
      tutti_op product = TUTTI_OP_NULL;
      ASSERT_EQ(tutti_op_create(multiply_matrices, 0, sizeof(Matrix), nullptr, &product), TUTTI_SUCCESS);
      for (const std::size_t count : {1, 3, 100, 5000}) {
        std::vector<Matrix> in(count), out(count);
        for (std::size_t i = 0; i < count; ++i) in[i] = matrix(rank, i);
        ASSERT_EQ(tutti_allreduce(in.data(), out.data(), count, TUTTI_OP_ELEMENT, product, comm), TUTTI_SUCCESS)
            << last_error().text;
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(out[i], product_of(0, size, i)) << size << " ranks, count " << count << ", element " << i;
        }
      }
      EXPECT_EQ(tutti_op_free(&product), TUTTI_SUCCESS);
      EXPECT_EQ(product, TUTTI_OP_NULL);
    });
  }
}

// Elements of no round size, one of them larger than an eager message.
TEST(UserOperators, TakeElementsOfAnySize) {
  struct Sized {
    std::size_t bytes;
  };
  const tutti_op_function add = [](const void *in, void *in_out, std::size_t count, void *user) {
    const std::size_t bytes = count * static_cast<Sized *>(user)->bytes;
    for (std::size_t i = 0; i < bytes; ++i)
      static_cast<std::uint8_t *>(in_out)[i] =
          static_cast<std::uint8_t>(static_cast<std::uint8_t *>(in_out)[i] + static_cast<const std::uint8_t *>(in)[i]);
  };
  Start start;
  start.everywhere = {{"TUTTI_CHUNK_BYTES", "4K"}, {"TUTTI_EAGER_BYTES", "1K"}};
  ThreadRanks ranks(3, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([&](int rank, tutti_comm *comm) {
    for (const std::size_t bytes : {1, 3, 24, 100, 1500, 4096})
      for (const std::int32_t commutative : {0, 1}) {
        Sized sized = {bytes};
        tutti_op op = TUTTI_OP_NULL;
        ASSERT_EQ(tutti_op_create(add, commutative, bytes, &sized, &op), TUTTI_SUCCESS);
        for (const std::size_t count : {1, 7, 300}) {
          Bytes buffer(bytes * count);
          for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<std::uint8_t>(i * 7 + unsigned(rank));
          ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), count, TUTTI_OP_ELEMENT, op, comm), TUTTI_SUCCESS)
              << last_error().text;
          for (std::size_t i = 0; i < buffer.size(); ++i)
            ASSERT_EQ(buffer[i], static_cast<std::uint8_t>(i * 21 + 3)) << bytes << " bytes, " << count;
        }
        ASSERT_EQ(tutti_op_free(&op), TUTTI_SUCCESS);
      }
  });
}

TEST(UserOperators, GoWithTypesOfTheirSize) {
  const tutti_op_function larger = [](const void *in, void *in_out, std::size_t count, void *) {
    for (std::size_t i = 0; i < count; ++i)
      static_cast<double *>(in_out)[i] = std::max(static_cast<const double *>(in)[i], static_cast<double *>(in_out)[i]);
  };
  ThreadRanks ranks(2);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([&](int rank, tutti_comm *comm) {
    tutti_op op = TUTTI_OP_NULL;
    ASSERT_EQ(tutti_op_create(larger, 1, sizeof(double), nullptr, &op), TUTTI_SUCCESS);
    std::vector<double> values(1000, rank);
    ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, values.data(), values.size(), TUTTI_DOUBLE, op, comm), TUTTI_SUCCESS);
    EXPECT_EQ(std::ranges::count(values, 1.0), std::ssize(values));
    EXPECT_EQ(tutti_allreduce(TUTTI_IN_PLACE, values.data(), 1, TUTTI_FLOAT, op, comm), TUTTI_ERROR_OP);
    EXPECT_NE(std::string(last_error().text).find("elements of 8 bytes and float has 4; use TUTTI_OP_ELEMENT"),
              std::string::npos)
        << last_error().text;
    ASSERT_EQ(tutti_op_free(&op), TUTTI_SUCCESS);
  });
}

TEST(PremulSum, RanksMultiplyByTheirOwnFactors) {
  for (const char *algorithm : kAlgorithms) {
    ThreadRanks ranks(4, with_algorithm(algorithm));
    ASSERT_TRUE(ranks.up()) << ranks.errors();
    ranks.each([](int rank, tutti_comm *comm) {
      for (tutti_type type = 0; type <= TUTTI_COMPLEX_DOUBLE; ++type)
        for (const std::size_t count : {1, 9001})
          with_type(type, [&]<class T>(T) {
            const auto make = [](int value) {
              if constexpr (is_half<T>) return T::nearest(value);
              else return static_cast<T>(value);
            };
            const T factor = make(rank + 1);
            tutti_op op = TUTTI_OP_NULL;
            ASSERT_EQ(tutti_op_create_premul_sum(&factor, type, &op), TUTTI_SUCCESS) << last_error().text;
            const std::vector<T> in(count, make(3));
            std::vector<T> out(count);
            ASSERT_EQ(tutti_allreduce(in.data(), out.data(), count, type, op, comm), TUTTI_SUCCESS);
            const T expected = make(3 * (1 + 2 + 3 + 4));
            for (const T &value : out) ASSERT_EQ(std::memcmp(&value, &expected, sizeof(T)), 0) << "type " << type;
            ASSERT_EQ(tutti_op_free(&op), TUTTI_SUCCESS);
          });
    });
  }
}

// Freed while others of the same slot are made and used: a call never runs with what a handle stood for before.
TEST(UserOperators, ManyAreMadeAndFreed) {
  ThreadRanks ranks(2);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    for (int round = 0; round < 2000; ++round) {
      const float factor = static_cast<float>(round % 17);
      tutti_op op = TUTTI_OP_NULL;
      ASSERT_EQ(tutti_op_create_premul_sum(&factor, TUTTI_FLOAT, &op), TUTTI_SUCCESS);
      float value = static_cast<float>(rank + 1);
      ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, &value, 1, TUTTI_FLOAT, op, comm), TUTTI_SUCCESS);
      ASSERT_EQ(value, 3 * factor);
      ASSERT_EQ(tutti_op_free(&op), TUTTI_SUCCESS);
    }
  });
}

TEST(UserOperators, ThatDoNotCommuteRefuseAForcedAlgorithmThatReorders) {
  ThreadRanks ranks(3, with_algorithm("ring"));
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int, tutti_comm *comm) {
    tutti_op op = TUTTI_OP_NULL;
    ASSERT_EQ(tutti_op_create(multiply_matrices, 0, sizeof(Matrix), nullptr, &op), TUTTI_SUCCESS);
    Matrix one = matrix(0, 0);
    EXPECT_EQ(tutti_allreduce(TUTTI_IN_PLACE, &one, 1, TUTTI_OP_ELEMENT, op, comm), TUTTI_ERROR_CONFIG);
    const std::string text = last_error().text;
    EXPECT_TRUE(text.starts_with(
        "allreduce:ring, which the call, tutti_comm_set_algorithms or TUTTI_ALGO asks for, does not keep "
        "rank order, which this operator needs; direct, recursive_doubling, "))
        << text;
    EXPECT_EQ(tutti_op_free(&op), TUTTI_SUCCESS);
  });
}

}  // namespace
}  // namespace tutti::test

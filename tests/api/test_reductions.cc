// SPDX-License-Identifier: BSD-3-Clause
//
// Every collective that reduces with every type and operator, with ranks as threads: right results in place and not,
// nothing written beside them, the order of ranks where operands do not commute, and bits that do not depend on the
// algorithm with TUTTI_REPRODUCIBLE.
#include <algorithm>
#include <array>
#include <functional>

#include "expect.h"
#include "support/exact_elements.h"
#include "support/matrices.h"
#include "support/thread_ranks.h"

namespace tutti::test {
namespace {

// Two of the four with several algorithms; all of them are tried.
constexpr const char *kAlgorithms[] = {"reduce:knomial,reduce_scatter_block:direct,reduce_scatter:direct",
                                       "reduce:chain,reduce_scatter_block:ring,reduce_scatter:ring",
                                       "reduce:scatter_gather,reduce_scatter_block:circulant,reduce_scatter:circulant",
                                       "reduce:knomial_ordered"};

Start with(Variables variables) {
  Start start;
  start.everywhere = std::move(variables);
  return start;
}

// One call with buffers between canaries. `in` and `out` count elements; results are out[0, results).
template <class T>
class Attempt {
 public:
  Attempt(const std::vector<T> &in, std::size_t out, bool in_place) : in_(in), before_(in), in_place_(in_place) {
    out_.resize(std::max(in_place ? in.size() : 0, out) + 1);
    std::memset(static_cast<void *>(out_.data()), kCanary, out_.size() * sizeof(T));
    if (in_place && !in.empty()) std::memcpy(static_cast<void *>(out_.data()), in.data(), in.size() * sizeof(T));
    initial_ = out_;
  }
  const void *in() const { return in_place_ ? TUTTI_IN_PLACE : in_.data(); }
  void *out() { return out_.data(); }
  // That the results are those expected, and nothing else was written. What C leaves unused in a pair is that of the
  // operand where nothing was combined, and not looked at.
  void expect(const std::vector<T> &results, const std::string &what, bool combined = true) const {
    std::vector<T> found(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(results.size()));
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (combined) std::memcpy(&found[i], &out_[i], sizeof(T));
      else put(&found[i], out_[i]);
    }
    ASSERT_TRUE(results.empty() || std::memcmp(found.data(), results.data(), results.size() * sizeof(T)) == 0) << what;
    ASSERT_EQ(std::memcmp(&out_[results.size()], &initial_[results.size()], (out_.size() - results.size()) * sizeof(T)),
              0)
        << what << ": wrote beside the result";
    ASSERT_TRUE(in_.empty() || std::memcmp(in_.data(), before_.data(), in_.size() * sizeof(T)) == 0)
        << what << ": wrote to the input";
  }

 private:
  static constexpr int kCanary = 0x5A;
  std::vector<T> in_, before_, out_, initial_;
  bool in_place_;
};

struct Operation {
  tutti_type type;
  tutti_op named, made;  // what elements are chosen for, and what the call takes
};

template <class T>
std::vector<T> inputs(int rank, tutti_op op, std::size_t count) {
  std::vector<T> in(count);
  for (std::size_t i = 0; i < count; ++i) {
    const T mine = element<T>(rank, i, op);
    std::memcpy(&in[i], &mine, sizeof(T));
  }
  return in;
}

template <class T>
std::vector<T> part(const std::vector<T> &whole, std::size_t begin, std::size_t count) {
  std::vector<T> some(count);
  if (count != 0) std::memcpy(static_cast<void *>(some.data()), &whole[begin], count * sizeof(T));
  return some;
}

template <class T>
void check_all(tutti_comm *comm, int rank, int ranks, const Operation &operation, std::size_t count, bool in_place) {
  const auto &[type, named, op] = operation;
  const auto p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
  const std::string what = "type " + std::to_string(type) + " operator " + std::to_string(named) + " count " +
                           std::to_string(count) + (in_place ? " in place" : "");
  {
    const int root = static_cast<int>(count) % ranks;
    const bool is_root = rank == root, here = in_place && is_root;
    Attempt<T> attempt(inputs<T>(rank, named, count), count, here);
    ASSERT_EQ(tutti_reduce(attempt.in(), is_root ? attempt.out() : nullptr, count, type, op, root, comm), TUTTI_SUCCESS)
        << last_error().text;
    attempt.expect(is_root ? expected_of<T>(named, 0, ranks, count) : std::vector<T>(), "reduce, " + what);
  }
  {
    Attempt<T> attempt(inputs<T>(rank, named, count * p), count, in_place);
    ASSERT_EQ(tutti_reduce_scatter_block(attempt.in(), attempt.out(), count, type, op, comm), TUTTI_SUCCESS)
        << last_error().text;
    attempt.expect(part(expected_of<T>(named, 0, ranks, count * p), r * count, count), "reduce_scatter_block, " + what);
  }
  {
    // Uneven blocks, one of them empty.
    std::vector<std::size_t> counts(p);
    std::size_t total = 0, begin = 0;
    for (std::size_t block = 0; block < p; ++block) {
      counts[block] = block == 1 ? 0 : count + block;
      if (block < r) begin += counts[block];
      total += counts[block];
    }
    Attempt<T> attempt(inputs<T>(rank, named, total), counts[r], in_place);
    ASSERT_EQ(tutti_reduce_scatter(attempt.in(), attempt.out(), counts.data(), type, op, comm), TUTTI_SUCCESS)
        << last_error().text;
    attempt.expect(part(expected_of<T>(named, 0, ranks, total), begin, counts[r]), "reduce_scatter, " + what);
  }
  if (named == TUTTI_AVG) return;
  {
    Attempt<T> attempt(inputs<T>(rank, named, count), count, in_place);
    ASSERT_EQ(tutti_scan(attempt.in(), attempt.out(), count, type, op, comm), TUTTI_SUCCESS) << last_error().text;
    attempt.expect(expected_of<T>(named, 0, rank + 1, count), "scan, " + what, rank != 0);
  }
  {
    Attempt<T> attempt(inputs<T>(rank, named, count), count, in_place);
    ASSERT_EQ(tutti_exscan(attempt.in(), attempt.out(), count, type, op, comm), TUTTI_SUCCESS) << last_error().text;
    attempt.expect(rank == 0 ? std::vector<T>() : expected_of<T>(named, 0, rank, count), "exscan, " + what, rank != 1);
  }
}

class Reductions : public testing::TestWithParam<int> {};

TEST_P(Reductions, OfEveryTypeAndOperatorAreRight) {
  const int size = GetParam();
  for (const char *algorithms : kAlgorithms) {
    SCOPED_TRACE(algorithms);
    // Vectors of 16-bit floats of both ways: those of 300 elements are too long to travel as float.
    ThreadRanks ranks(size, with({{"TUTTI_ALGO", algorithms}, {"TUTTI_WIDEN_BYTES", "256"}}));
    ASSERT_TRUE(ranks.up()) << ranks.errors();
    ranks.each([&](int rank, tutti_comm *comm) {
      for (tutti_type type = 0; type < TUTTI_OP_ELEMENT; ++type)
        for (const tutti_op op : operators_of(type))
          for (const std::size_t count : {0, 1, 13, 300})
            for (const bool in_place : {false, true})
              with_type(type, [&]<class T>(T) { check_all<T>(comm, rank, size, {type, op, op}, count, in_place); });
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Reductions, testing::Values(2, 3, 5));

// A factor of 1 on every rank leaves sums as they are; that ranks use their own is tried with one type.
TEST(PremulSums, AreRightInEveryCollective) {
  constexpr int kRanks = 3;
  ThreadRanks ranks(kRanks, with({{"TUTTI_WIDEN_BYTES", "256"}}));
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([&](int rank, tutti_comm *comm) {
    for (tutti_type type = 0; type <= TUTTI_COMPLEX_DOUBLE; ++type)
      with_type(type, [&]<class T>(T) {
        T one;
        if constexpr (is_half<T>) one = T::nearest(1);
        else one = static_cast<T>(1);
        tutti_op op = TUTTI_OP_NULL;
        ASSERT_EQ(tutti_op_create_premul_sum(&one, type, &op), TUTTI_SUCCESS);
        for (const std::size_t count : {1, 300})
          for (const bool in_place : {false, true})
            check_all<T>(comm, rank, kRanks, {type, TUTTI_SUM, op}, count, in_place);
        ASSERT_EQ(tutti_op_free(&op), TUTTI_SUCCESS);
      });

    const std::int64_t factor = rank + 2;
    tutti_op op = TUTTI_OP_NULL;
    ASSERT_EQ(tutti_op_create_premul_sum(&factor, TUTTI_INT64, &op), TUTTI_SUCCESS);
    std::array<std::int64_t, 3> in = {1, 10, 100}, out = {-7, -7, -7};
    ASSERT_EQ(tutti_scan(in.data(), out.data(), 3, TUTTI_INT64, op, comm), TUTTI_SUCCESS);
    const std::int64_t upto = std::array{2, 5, 9}[static_cast<std::size_t>(rank)];
    EXPECT_EQ(out, (std::array<std::int64_t, 3>{upto, 10 * upto, 100 * upto}));
    out = in;
    ASSERT_EQ(tutti_exscan(TUTTI_IN_PLACE, out.data(), 3, TUTTI_INT64, op, comm), TUTTI_SUCCESS);
    const std::int64_t before = std::array{1, 2, 5}[static_cast<std::size_t>(rank)];
    EXPECT_EQ(out, (std::array<std::int64_t, 3>{before, 10 * before, 100 * before}))
        << "rank 0's stays, not multiplied";
    std::int64_t mine = 0;
    ASSERT_EQ(tutti_reduce_scatter_block(in.data(), &mine, 1, TUTTI_INT64, op, comm), TUTTI_SUCCESS);
    EXPECT_EQ(mine, 9 * in[static_cast<std::size_t>(rank)]);
    ASSERT_EQ(tutti_op_free(&op), TUTTI_SUCCESS);
  });
}

TEST(Scans, HaveNoMean) {
  ThreadRanks ranks(2);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int, tutti_comm *comm) {
    float value = 1;
    expect_error(tutti_scan(TUTTI_IN_PLACE, &value, 1, TUTTI_FLOAT, TUTTI_AVG, comm), TUTTI_ERROR_OP,
                 {"tutti_scan", "avg", "take sum"});
    expect_error(tutti_exscan(TUTTI_IN_PLACE, &value, 1, TUTTI_FLOAT, TUTTI_AVG, comm), TUTTI_ERROR_OP,
                 {"tutti_exscan", "avg"});
    ASSERT_EQ(tutti_scan(TUTTI_IN_PLACE, &value, 1, TUTTI_FLOAT, TUTTI_SUM, comm), TUTTI_SUCCESS) << "it goes on";
  });
}

using Matrices = std::vector<Matrix>;
Matrices products(int first, int last, std::size_t begin, std::size_t count) {
  Matrices all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = product_of(first, last, begin + i);
  return all;
}

TEST(UserOperators, case_48_OperandsThatDoNotCommuteKeepTheOrderOfRanksInEveryCollective) {
  for (int size = 2; size <= 9; ++size) {
    ThreadRanks ranks(size);
    ASSERT_TRUE(ranks.up()) << ranks.errors();
    ranks.each([size](int rank, tutti_comm *comm) {
      tutti_op op = TUTTI_OP_NULL;
      ASSERT_EQ(tutti_op_create(multiply_matrices, 0, sizeof(Matrix), nullptr, &op), TUTTI_SUCCESS);
      const auto p = static_cast<std::size_t>(size), r = static_cast<std::size_t>(rank);
      for (const std::size_t count : {1, 7, 3000}) {
        SCOPED_TRACE(std::to_string(size) + " ranks, count " + std::to_string(count));
        const Matrices in = products(rank, rank + 1, 0, count * p);
        Matrices out(count);
        for (int root = 0; root < (count < 10 ? size : 2); ++root) {
          ASSERT_EQ(tutti_reduce(in.data(), out.data(), count, TUTTI_OP_ELEMENT, op, root, comm), TUTTI_SUCCESS)
              << last_error().text;
          if (rank == root) {
            ASSERT_EQ(out, products(0, size, 0, count)) << "reduce to " << root;
          }
        }
        ASSERT_EQ(tutti_reduce_scatter_block(in.data(), out.data(), count, TUTTI_OP_ELEMENT, op, comm), TUTTI_SUCCESS);
        ASSERT_EQ(out, products(0, size, r * count, count)) << "reduce_scatter_block";
        std::vector<std::size_t> counts(p, count);
        counts[0] = 0;
        Matrices own(counts[r]);
        ASSERT_EQ(tutti_reduce_scatter(in.data(), own.data(), counts.data(), TUTTI_OP_ELEMENT, op, comm),
                  TUTTI_SUCCESS);
        ASSERT_EQ(own, products(0, size, r == 0 ? 0 : (r - 1) * count, counts[r])) << "reduce_scatter";
        ASSERT_EQ(tutti_scan(in.data(), out.data(), count, TUTTI_OP_ELEMENT, op, comm), TUTTI_SUCCESS);
        ASSERT_EQ(out, products(0, rank + 1, 0, count)) << "scan";
        ASSERT_EQ(tutti_exscan(in.data(), out.data(), count, TUTTI_OP_ELEMENT, op, comm), TUTTI_SUCCESS);
        if (rank > 0) {
          ASSERT_EQ(out, products(0, rank, 0, count)) << "exscan";
        }
      }
      EXPECT_EQ(tutti_op_free(&op), TUTTI_SUCCESS);
    });
  }
}

// Several calls at once, each of which converts its elements or has an operator of the program's own; and the same ones
// again and again.
TEST(Conversions, OfSeveralCallsAtOnceKeepApart) {
  constexpr int kRanks = 4, kCalls = 6;
  constexpr std::size_t kCount = 500;
  ThreadRanks ranks(kRanks);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([&](int rank, tutti_comm *comm) {
    std::array<tutti_op, 2> sums = {TUTTI_OP_NULL, TUTTI_OP_NULL};
    const std::array<std::int32_t, 2> factors = {rank + 1, 10 * (rank + 1)};
    for (std::size_t i = 0; i < 2; ++i)
      ASSERT_EQ(tutti_op_create_premul_sum(&factors[i], TUTTI_INT32, &sums[i]), TUTTI_SUCCESS);
    tutti_op product = TUTTI_OP_NULL;
    ASSERT_EQ(tutti_op_create(multiply_matrices, 0, sizeof(Matrix), nullptr, &product), TUTTI_SUCCESS);
    const std::vector<std::int32_t> ones(kCount, 1);
    const std::vector<std::int8_t> bytes(kCount, static_cast<std::int8_t>(100 + rank));
    const Matrices factors_of_mine = products(rank, rank + 1, 0, kCount);
    std::vector<std::int32_t> first(kCount), second(kCount), scanned(kCount);
    std::vector<std::int8_t> mean(kCount);
    Matrices all(kCount), upto(kCount);
    const auto call = [&](std::int32_t collective, tutti_type type, tutti_op op, const void *in, void *out) {
      tutti_call made = TUTTI_INIT_STRUCT(tutti_call);
      made.collective = collective, made.type = type, made.op = op, made.in = in, made.out = out, made.count = kCount;
      return made;
    };
    const std::array<tutti_call, kCalls> calls = {
        call(TUTTI_ALLREDUCE, TUTTI_INT32, sums[0], ones.data(), first.data()),
        call(TUTTI_ALLREDUCE, TUTTI_INT32, sums[1], ones.data(), second.data()),
        call(TUTTI_ALLREDUCE, TUTTI_INT8, TUTTI_AVG, bytes.data(), mean.data()),
        call(TUTTI_ALLREDUCE, TUTTI_OP_ELEMENT, product, factors_of_mine.data(), all.data()),
        call(TUTTI_SCAN, TUTTI_INT32, sums[0], ones.data(), scanned.data()),
        call(TUTTI_SCAN, TUTTI_OP_ELEMENT, product, factors_of_mine.data(), upto.data())};
    std::array<tutti_request *, kCalls> requests = {};
    for (std::size_t i = 0; i < kCalls; ++i)
      ASSERT_EQ(tutti_call_init(&calls[i], comm, &requests[i]), TUTTI_SUCCESS) << last_error().text;
    // What is freed here, calls that were made have kept.
    for (tutti_op &op : sums) ASSERT_EQ(tutti_op_free(&op), TUTTI_SUCCESS);
    ASSERT_EQ(tutti_op_free(&product), TUTTI_SUCCESS);
    for (int round = 0; round < 5; ++round) {
      for (auto *out : {&first, &second, &scanned}) std::ranges::fill(*out, -1);
      std::ranges::fill(mean, std::int8_t{-1});
      for (tutti_request *request : requests) ASSERT_EQ(tutti_start(request), TUTTI_SUCCESS) << last_error().text;
      ASSERT_EQ(tutti_wait_all(kCalls, requests.data(), nullptr), TUTTI_SUCCESS) << last_error().text;
      ASSERT_EQ(first, std::vector<std::int32_t>(kCount, 10));
      ASSERT_EQ(second, std::vector<std::int32_t>(kCount, 100));
      ASSERT_EQ(mean, std::vector<std::int8_t>(kCount, 101));
      ASSERT_EQ(all, products(0, kRanks, 0, kCount));
      ASSERT_EQ(scanned, std::vector<std::int32_t>(kCount, (rank + 1) * (rank + 2) / 2));
      ASSERT_EQ(upto, products(0, rank + 1, 0, kCount));
    }
    for (tutti_request *&request : requests) ASSERT_EQ(tutti_request_free(&request), TUTTI_SUCCESS);
  });
}

// Sums of numbers whose sum depends on the order, by every collective and in vectors of several lengths, on devices of
// several kinds: what each gives for the first element.
struct Sums {
  std::vector<float> of_length;  // allreduce, then reduce to the last rank, then the first block of a reduce_scatter
};
Sums first_sums(const Variables &variables) {
  constexpr int kRanks = 7;
  constexpr std::array<std::size_t, 5> kLengths = {1, 90, 1000, 20'000, 300'000};
  Sums sums;
  ThreadRanks ranks(kRanks, with(variables));
  EXPECT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([&](int rank, tutti_comm *comm) {
    const float mine = std::array{1e8f, 1.f, -1e8f, 3e-3f, 7.f, 1e4f, -3.3f}[static_cast<std::size_t>(rank)];
    for (const std::size_t length : kLengths) {
      const std::vector<float> in(length * kRanks, mine);
      std::vector<float> all(length), at_last(length), block(length);
      ASSERT_EQ(tutti_allreduce(in.data(), all.data(), length, TUTTI_FLOAT, TUTTI_SUM, comm), TUTTI_SUCCESS);
      ASSERT_EQ(tutti_reduce(in.data(), at_last.data(), length, TUTTI_FLOAT, TUTTI_SUM, kRanks - 1, comm),
                TUTTI_SUCCESS);
      ASSERT_EQ(tutti_reduce_scatter_block(in.data(), block.data(), length, TUTTI_FLOAT, TUTTI_SUM, comm),
                TUTTI_SUCCESS);
      // Equal operands: wherever an element is, its sum has the bits of the first one's, if the order is the same.
      for (const float value : all) ASSERT_EQ(value, all[0]) << "allreduce of " << length;
      for (const float value : block) ASSERT_EQ(value, block[0]) << "reduce_scatter of " << length;
      if (rank == kRanks - 1) {
        for (const float value : at_last) ASSERT_EQ(value, at_last[0]) << "reduce of " << length;
        for (const std::vector<float> *each : {&all, &at_last, &block}) sums.of_length.push_back(each->front());
      }
    }
  });
  return sums;
}

TEST(Reproducible, SumsHaveTheSameBitsWhateverTheLengthAndTheDevice) {
  const Sums here = first_sums({{"TUTTI_REPRODUCIBLE", "1"}});
  for (std::size_t i = 3; i < here.of_length.size(); ++i)
    EXPECT_EQ(here.of_length[i], here.of_length[i % 3]) << "length " << i / 3 << ", collective " << i % 3;
  const Sums there = first_sums({{"TUTTI_REPRODUCIBLE", "1"},
                                 {"TUTTI_SOFTDEV", "mtu=1024"},
                                 {"TUTTI_EAGER_BYTES", "512"},
                                 {"TUTTI_CHUNK_BYTES", "4K"}});
  EXPECT_EQ(here.of_length, there.of_length);
}

}  // namespace
}  // namespace tutti::test

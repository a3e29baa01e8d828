// SPDX-License-Identifier: BSD-3-Clause
//
// Case 43, wide: an allreduce leaves the same bits on all ranks for every type, operator and algorithm among 2 to 17
// ranks, with counts around the number of ranks, on any bits at all. test_operators.cc has fewer ranks, and runs again.
#include <array>

#include "expect.h"
#include "support/operator_oracle.h"
#include "support/random.h"

namespace tutti::test {
namespace {

constexpr std::array kAlgorithms = {"direct",    "recursive_doubling", "recursive_multiplying", "ring",
                                    "circulant", "circulant:skips=1",  "hierarchical",          "leaders:radix=3"};

using Bytes = std::vector<std::uint8_t>;

Bytes any_bits(int rank, tutti_type type, std::size_t bytes) {
  Random random(static_cast<std::uint64_t>(rank) * 1000 + static_cast<std::uint64_t>(type));
  Bytes all(bytes);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t bits = random.next();
    std::memcpy(&all[i], &bits, std::min<std::size_t>(8, bytes - i));
  }
  return all;
}

std::uint64_t digest(const Bytes &bytes) {
  std::uint64_t state = 0xcbf29ce484222325u;
  for (const std::uint8_t byte : bytes) state = (state ^ byte) * 0x100000001b3u;
  return state;
}

// Every algorithm with every count, all at once; then all ranks compare what they have with what rank 0 has.
void compare(tutti_comm *comm, int rank, tutti_type type, tutti_op op, const std::vector<std::size_t> &counts) {
  struct Call {
    const char *algorithm;
    std::size_t count;
    Bytes out;
    tutti_request *request = nullptr;
  };
  const std::size_t element = tutti_type_bytes(type);
  const Bytes in = any_bits(rank, type, std::ranges::max(counts) * element);
  std::vector<Call> calls;
  for (const char *algorithm : kAlgorithms)
    for (const std::size_t count : counts) calls.push_back({algorithm, count, Bytes(count * element)});
  for (Call &one : calls) {
    tutti_call call = TUTTI_INIT_STRUCT(tutti_call);
    call.collective = TUTTI_ALLREDUCE;
    call.in = in.data();
    call.out = one.out.data();
    call.count = one.count;
    call.type = type;
    call.op = op;
    call.algorithm = one.algorithm;
    ASSERT_EQ(tutti_start_call(&call, comm, &one.request), TUTTI_SUCCESS) << last_error().text;
  }
  std::vector<std::uint64_t> mine;
  for (Call &one : calls) {
    ASSERT_EQ(tutti_wait(&one.request, nullptr), TUTTI_SUCCESS) << last_error().text;
    mine.push_back(digest(one.out));
  }
  std::vector<std::uint64_t> first = mine;
  ASSERT_EQ(tutti_broadcast(first.data(), first.size(), TUTTI_UINT64, 0, comm), TUTTI_SUCCESS) << last_error().text;
  for (std::size_t i = 0; i < calls.size(); ++i)
    EXPECT_EQ(mine[i], first[i]) << "rank " << rank << " has other bits than rank 0: type " << type << ", operator "
                                 << op << ", " << calls[i].algorithm << ", " << calls[i].count << " elements";
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const auto kRanks = testing::Values(3);  // the same code for more takes minutes
const auto kLargeRanks = testing::Values(2);
#else
const auto kRanks = testing::Range(2, 18);
const auto kLargeRanks = testing::Values(2, 3, 8, 17);
#endif

class SameBits : public testing::TestWithParam<int> {};

TEST_P(SameBits, case_43_OnAllRanksForEveryTypeOperatorAndAlgorithm) {
  const auto p = static_cast<std::size_t>(GetParam());
  with_ranks(GetParam(), [&](int rank, tutti_comm *comm) {
    for (tutti_type type = 0; type < TUTTI_OP_ELEMENT; ++type)
      for (const tutti_op op : operators_of(type)) compare(comm, rank, type, op, {0, 1, p - 1, p, p + 1});
  });
}

class SameBitsOfMany : public testing::TestWithParam<int> {};

TEST_P(SameBitsOfMany, case_43_OnAllRanksForAMillionElements) {
  with_ranks(GetParam(), [&](int rank, tutti_comm *comm) {
    compare(comm, rank, TUTTI_FLOAT, TUTTI_SUM, {std::size_t{1} << 20});
    compare(comm, rank, TUTTI_BFLOAT16, TUTTI_PROD, {std::size_t{1} << 20});
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SameBits, kRanks);
INSTANTIATE_TEST_SUITE_P(Ranks, SameBitsOfMany, kLargeRanks);

}  // namespace
}  // namespace tutti::test

// SPDX-License-Identifier: BSD-3-Clause
//
// Persistent calls: started in any order, which differs between ranks, and ahead of others; what differs is an error.
#include <algorithm>
#include <array>
#include <numeric>

#include "api/expect.h"
#include "support/random.h"

namespace tutti::test {
namespace {

// Persistent calls of each kind that fills windows in both directions and reads what it overwrites; each rank starts
// them in an order of its own, among other calls, and waits in another.
TEST(Persistent, PersistentCallsStartInAnyOrder) {
  with_ranks(4, [](int rank, tutti_comm *comm) {
    constexpr std::size_t kCalls = 8, kCount = 200'000;
    std::vector<Ints> buffers(kCalls, Ints(kCount)), ordinary(2, Ints(kCount / 4));
    std::vector<tutti_request *> requests(kCalls);
    for (std::size_t i = 0; i < kCalls; ++i) {
      tutti_call call = i % 4 == 3 ? call_of(TUTTI_BROADCAST, buffers[i].data(), buffers[i].data(), kCount)
                                   : call_of(TUTTI_ALLREDUCE, TUTTI_IN_PLACE, buffers[i].data(), kCount);
      if (i % 4 == 3) call.root = static_cast<std::int32_t>(i / 2);
      call.algorithm = i % 4 == 3 ? "chain" : std::array{"recursive_doubling", "direct", "circulant"}[i % 4];
      ASSERT_EQ(TUTTI_SUCCESS, tutti_call_init(&call, comm, &requests[i])) << last_error().text;
    }
    Random random(static_cast<std::uint64_t>(rank));
    std::vector<std::size_t> order(kCalls);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int turn = 0; turn < 8; ++turn) {
      std::vector<tutti_request *> others;
      for (std::size_t i = 0; i < kCalls; ++i) std::ranges::fill(buffers[i], rank + turn * 10 + static_cast<int>(i));
      for (Ints &buffer : ordinary) std::ranges::fill(buffer, rank);
      for (std::size_t i = kCalls; i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
      for (std::size_t i = 0; i < kCalls; ++i) {
        if (i % 4 == 1) others.push_back(start_sum(ordinary[i / 4], comm));
        ASSERT_EQ(TUTTI_SUCCESS, tutti_start(requests[order[i]])) << last_error().text;
      }
      for (std::size_t i = kCalls; i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
      for (const std::size_t i : order)
        ASSERT_EQ(TUTTI_SUCCESS, tutti_wait(&requests[i], nullptr)) << last_error().text;
      ASSERT_EQ(TUTTI_SUCCESS, tutti_wait_all(others.size(), others.data(), nullptr));
      for (std::size_t i = 0; i < kCalls; ++i) {
        const int given = turn * 10 + static_cast<int>(i);
        ASSERT_EQ(buffers[i], Ints(kCount, i % 4 == 3 ? given + static_cast<int>(i / 2) : 4 * given + 6))
            << "call " << i;
      }
      for (const Ints &buffer : ordinary) ASSERT_EQ(buffer, Ints(kCount / 4, 6));
    }
    for (tutti_request *&request : requests) EXPECT_OK(tutti_request_free(&request));
  });
}

// Many starts of several calls before the other rank has even made them: each gets those that are its own.
TEST(Persistent, APersistentCallMayBeStartedFarAhead) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    constexpr int kStarts = 100;
    Ints data(3);
    std::vector<tutti_request *> requests(3);
    const auto make = [&] {
      for (std::size_t i = 0; i < 3; ++i) {
        tutti_call call = call_of(TUTTI_BROADCAST, &data[i], &data[i], 1);
        ASSERT_EQ(TUTTI_SUCCESS, tutti_call_init(&call, comm, &requests[i]));
      }
    };
    if (rank == 0) make();
    for (int start = 0; start < kStarts && rank == 0; ++start)
      for (std::size_t i = 0; i < 3; ++i) {
        data[i] = start * 3 + static_cast<int>(i);
        ASSERT_EQ(TUTTI_SUCCESS, tutti_start(requests[i]));
        ASSERT_EQ(TUTTI_SUCCESS, tutti_wait(&requests[i], nullptr));
      }
    EXPECT_OK(tutti_barrier(comm));  // after which all of that has come
    if (rank == 1) make();
    for (std::size_t i = 3; i-- > 0 && rank == 1;)
      for (int start = 0; start < kStarts; ++start) {
        ASSERT_EQ(TUTTI_SUCCESS, tutti_start(requests[i]));
        ASSERT_EQ(TUTTI_SUCCESS, tutti_wait(&requests[i], nullptr));
        ASSERT_EQ(data[i], start * 3 + static_cast<int>(i));
      }
    for (tutti_request *&request : requests) EXPECT_OK(tutti_request_free(&request));
    EXPECT_OK(tutti_barrier(comm));
  });
}

TEST(Persistent, PersistentCallsThatDifferAreAMismatch) {
  ThreadRanks ranks(2, {});
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    Ints buffer(100, rank);
    tutti_call call = call_of(TUTTI_ALLREDUCE, TUTTI_IN_PLACE, buffer.data(), rank == 0 ? 100 : 50);
    tutti_request *request = nullptr;
    ASSERT_EQ(TUTTI_SUCCESS, tutti_call_init(&call, comm, &request));
    tutti_result result = tutti_start(request);
    if (result == TUTTI_SUCCESS) result = tutti_wait(&request, nullptr);
    expect_error(result, TUTTI_ERROR_MISMATCH, {"as start 1 of persistent call 1"});
  });
}

TEST(Persistent, AStartThatOthersDoNotMakeIsNoticedWhenTheyPart) {
  ThreadRanks ranks(2, {});
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *world) {
    tutti_comm *comm = nullptr;
    ASSERT_EQ(TUTTI_SUCCESS, tutti_comm_dup(world, &comm));
    int value = 5;
    tutti_call call = call_of(TUTTI_BROADCAST, &value, &value, 1);
    tutti_request *request = nullptr;
    ASSERT_EQ(TUTTI_SUCCESS, tutti_call_init(&call, comm, &request));
    for (int start = 0; start < 2 - rank; ++start) {
      ASSERT_EQ(TUTTI_SUCCESS, tutti_start(request));
      ASSERT_EQ(TUTTI_SUCCESS, tutti_wait(&request, nullptr));
    }
    if (rank == 1) expect_error(tutti_comm_free(&comm), TUTTI_ERROR_MISMATCH, {"persistent call 1"});
    else (void)tutti_comm_free(&comm);
    EXPECT_OK(tutti_request_free(&request));
  });
}

}  // namespace
}  // namespace tutti::test

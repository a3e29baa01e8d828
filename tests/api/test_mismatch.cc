// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks that make different calls: an error on every rank, never a hang, never wrong data.
#include <functional>

#include "api/expect.h"

namespace tutti::test {
namespace {

using Call = std::function<tutti_result(tutti_comm *)>;

// Rank `odd` makes another call than the others: an error on every rank, at this call or a later one.
void expect_mismatch(int ranks_count, int odd, const Call &common, const Call &different) {
  ThreadRanks ranks(ranks_count);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([&](int rank, tutti_comm *comm) {
    tutti_error error = {};
    if ((rank == odd ? different : common)(comm) != TUTTI_SUCCESS) error = last_error();
    else error = error_of_calls(comm);
    EXPECT_EQ(error.result, TUTTI_ERROR_MISMATCH) << "rank " << rank << ": " << error.text;
    expect_text(error, {"different calls", "have to agree"});
    EXPECT_EQ(sum(comm, 1), TUTTI_ERROR_MISMATCH) << "later calls fail at once";
  });
}

Call allreduce_of(std::size_t count, tutti_type type = TUTTI_INT32, tutti_op op = TUTTI_SUM) {
  return [=](tutti_comm *comm) {
    std::vector<std::uint64_t> buffer(count);
    return tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), count, type, op, comm);
  };
}

Call broadcast_of(std::size_t count, int root) {
  return [=](tutti_comm *comm) {
    std::vector<std::int32_t> buffer(count);
    return tutti_broadcast(buffer.data(), count, TUTTI_INT32, root, comm);
  };
}

TEST(Mismatch, Count) {
  expect_mismatch(4, 1, allreduce_of(100), allreduce_of(200));
  expect_mismatch(4, 1, allreduce_of(200), allreduce_of(100));
  expect_mismatch(3, 2, allreduce_of(100), allreduce_of(100'000));
  expect_mismatch(2, 1, allreduce_of(300'000), allreduce_of(300'001));
  expect_mismatch(3, 1, allreduce_of(1), allreduce_of(0));
}
TEST(Mismatch, Type) { expect_mismatch(3, 1, allreduce_of(10, TUTTI_INT32), allreduce_of(10, TUTTI_FLOAT)); }
TEST(Mismatch, Operator) {
  expect_mismatch(3, 0, allreduce_of(10, TUTTI_INT32, TUTTI_SUM), allreduce_of(10, TUTTI_INT32, TUTTI_MAX));
}
TEST(Mismatch, Collective) { expect_mismatch(4, 2, allreduce_of(10), broadcast_of(10, 0)); }
TEST(Mismatch, Root) {
  expect_mismatch(4, 3, broadcast_of(10, 0), broadcast_of(10, 1));
  expect_mismatch(2, 1, broadcast_of(10, 0), broadcast_of(10, 1));
}
// The ranks of a world part by a meeting that looks like no call of a user.
TEST(Mismatch, FreeingTheWorldWhileOthersCall) {
  ThreadRanks ranks(3);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([&](int rank, tutti_comm *comm) {
    if (rank == 1) {
      EXPECT_EQ(tutti_comm_free(&ranks[1].comm), TUTTI_ERROR_MISMATCH) << last_error().text;
    } else {
      std::uint8_t token = 0;
      tutti_result result = TUTTI_SUCCESS;
      for (int call = 0; call < 1'000'000 && result == TUTTI_SUCCESS; ++call)
        result = tutti_allreduce(TUTTI_IN_PLACE, &token, 1, TUTTI_UINT8, TUTTI_MAX, comm);
      EXPECT_EQ(result, TUTTI_ERROR_MISMATCH) << last_error().text;
    }
    const std::string text = last_error().text;
    EXPECT_TRUE(text.find("tutti_comm_free") != std::string::npos ||
                text.find("allreduce of 1 x uint8") != std::string::npos)
        << text;
  });
}

TEST(Mismatch, CountOfABroadcast) {
  expect_mismatch(4, 1, broadcast_of(100, 0), broadcast_of(200, 0));
  expect_mismatch(2, 0, broadcast_of(100'000, 0), broadcast_of(200'000, 0));
}

// Of the other collectives: buffers are large enough for whatever a rank thinks it is asked for.
Call any_of(const std::function<tutti_result(std::int32_t *in, std::int32_t *out, tutti_comm *comm)> &body) {
  return [body](tutti_comm *comm) {
    std::vector<std::int32_t> in(40'000), out(40'000);
    return body(in.data(), out.data(), comm);
  };
}
Call allgather_of(std::size_t count) {
  return any_of(
      [=](auto *in, auto *out, tutti_comm *comm) { return tutti_allgather(in, out, count, TUTTI_INT32, comm); });
}
Call reduce_of(std::size_t count, int root, tutti_op op = TUTTI_SUM) {
  return any_of(
      [=](auto *in, auto *out, tutti_comm *comm) { return tutti_reduce(in, out, count, TUTTI_INT32, op, root, comm); });
}
Call allgatherv_of(const std::vector<std::size_t> &counts) {
  return any_of([=](auto *in, auto *out, tutti_comm *comm) {
    std::int32_t rank = 0;
    tutti_comm_rank(comm, &rank);
    return tutti_allgatherv(in, counts[static_cast<std::size_t>(rank)], out, counts.data(), nullptr, TUTTI_INT32, comm);
  });
}
Call reduce_scatter_of(const std::vector<std::size_t> &counts) {
  return any_of([=](auto *in, auto *out, tutti_comm *comm) {
    return tutti_reduce_scatter(in, out, counts.data(), TUTTI_INT32, TUTTI_SUM, comm);
  });
}
Call gatherv_of(std::size_t mine, std::size_t theirs, int root = 0) {
  return any_of([=](auto *in, auto *out, tutti_comm *comm) {
    std::int32_t rank = 0;
    tutti_comm_rank(comm, &rank);
    const std::vector<std::size_t> counts(8, theirs);
    return tutti_gatherv(in, rank == root ? theirs : mine, out, counts.data(), nullptr, TUTTI_INT32, root, comm);
  });
}
Call scatterv_of(std::size_t mine, std::size_t theirs) {
  return any_of([=](auto *in, auto *out, tutti_comm *comm) {
    std::int32_t rank = 0;
    tutti_comm_rank(comm, &rank);
    const std::vector<std::size_t> counts(8, theirs);
    return tutti_scatterv(in, counts.data(), nullptr, out, rank == 0 ? theirs : mine, TUTTI_INT32, 0, comm);
  });
}
Call alltoallv_of(std::size_t give, std::size_t take) {
  return any_of([=](auto *in, auto *out, tutti_comm *comm) {
    std::int32_t rank = 0;
    tutti_comm_rank(comm, &rank);
    std::vector<std::size_t> gives(8, give), takes(8, take);
    gives[static_cast<std::size_t>(rank)] = takes[static_cast<std::size_t>(rank)];
    return tutti_alltoallv(in, gives.data(), nullptr, out, takes.data(), nullptr, TUTTI_INT32, comm);
  });
}
// Between two ranks only, in one direction: rank `odd` expects as many elements of rank 0 as that does not give.
Call one_way(std::size_t give, std::size_t take) {
  return any_of([=](auto *in, auto *out, tutti_comm *comm) {
    std::int32_t rank = 0;
    tutti_comm_rank(comm, &rank);
    std::vector<std::size_t> gives(8, 0), takes(8, 0);
    if (rank == 0) gives[1] = give;
    if (rank == 1) takes[0] = take;
    return tutti_alltoallv(in, gives.data(), nullptr, out, takes.data(), nullptr, TUTTI_INT32, comm);
  });
}
Call barrier_call() {
  return [](tutti_comm *comm) { return tutti_barrier(comm); };
}

// One of two ranks sends and the other expects nothing, or the other way round, so that no message shows it.
TEST(Mismatch, WhereOneOfAPairHasNothing) {
  expect_mismatch(3, 1, one_way(0, 0), one_way(0, 5));
  expect_mismatch(3, 1, one_way(5, 5), one_way(5, 0));
  expect_mismatch(3, 1, one_way(30'000, 30'000), one_way(0, 0));
  expect_mismatch(3, 1, gatherv_of(7, 7), gatherv_of(0, 7));
  expect_mismatch(3, 0, gatherv_of(0, 0), gatherv_of(0, 7));
  expect_mismatch(3, 0, gatherv_of(7, 7), gatherv_of(7, 0));
  expect_mismatch(3, 1, scatterv_of(0, 0), scatterv_of(7, 0));
  expect_mismatch(3, 1, scatterv_of(7, 7), scatterv_of(0, 7));
  expect_mismatch(3, 1, alltoallv_of(0, 0), alltoallv_of(0, 7));
  expect_mismatch(3, 1, alltoallv_of(7, 7), alltoallv_of(0, 7));
}

// Rank 0 is in the call as long as rank 1: it waits for itself to be asked.
TEST(Mismatch, WhereBothWaitForTheOther) {
  expect_mismatch(2, 1, broadcast_of(10, 1), broadcast_of(10, 0));
  expect_mismatch(2, 1, reduce_of(10, 0), gatherv_of(0, 3, 1));
}

TEST(Mismatch, case_39_OfTheOtherCollectives) {
  expect_mismatch(4, 1, allgather_of(10), allgather_of(20));
  expect_mismatch(4, 1, reduce_of(10, 0), allreduce_of(10));
  expect_mismatch(4, 2, reduce_of(10, 0), reduce_of(10, 1));
  expect_mismatch(3, 2, reduce_of(10, 0), reduce_of(20, 0));
  expect_mismatch(3, 0, reduce_of(10, 0), reduce_of(10, 0, TUTTI_MAX));
  expect_mismatch(4, 3, barrier_call(), allgather_of(3));
  expect_mismatch(3, 1, allgatherv_of({3, 4, 5}), allgatherv_of({3, 4, 6}));
  expect_mismatch(3, 1, allgatherv_of({3, 4, 5}), allgatherv_of({4, 4, 4}));
  expect_mismatch(3, 2, reduce_scatter_of({3, 4, 5}), reduce_scatter_of({5, 4, 3}));
}

TEST(Mismatch, OfWhatTwoRanksExpectOfEachOther) {
  expect_mismatch(3, 1, gatherv_of(5, 5), gatherv_of(6, 5));
  // Less than expected: nothing but the signature tells this from a message whose rest is still under way.
  expect_mismatch(3, 1, gatherv_of(5, 5), gatherv_of(4, 5));
  expect_mismatch(3, 2, alltoallv_of(5, 5), alltoallv_of(4, 5));
  expect_mismatch(3, 0, gatherv_of(5, 5), gatherv_of(5, 4));
  expect_mismatch(3, 2, scatterv_of(5, 5), scatterv_of(4, 5));
  expect_mismatch(3, 1, alltoallv_of(5, 5), alltoallv_of(7, 5));
  expect_mismatch(3, 1, alltoallv_of(5, 5), alltoallv_of(5, 4));
}

}  // namespace
}  // namespace tutti::test

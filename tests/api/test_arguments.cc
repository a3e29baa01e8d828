// SPDX-License-Identifier: BSD-3-Clause
//
// Arguments that are out of their range on every rank alike: errors, and nothing is touched.
#include <array>

#include "api/expect.h"

namespace tutti::test {
namespace {

// What stands for the other buffer is no buffer: by every call that takes one, the first time and after good calls.
TEST(Arguments, InPlaceIsNoBuffer) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    void *const place = TUTTI_IN_PLACE;
    constexpr tutti_type kType = TUTTI_INT32;
    constexpr tutti_op kSum = TUTTI_SUM;
    Ints data(8);
    std::int32_t *x = data.data();
    const std::array<std::size_t, 2> two = {2, 2};
    const std::size_t *counts = two.data();
    tutti_request *request = nullptr;
    const std::vector<std::function<tutti_result()>> calls = {
        [&] { return tutti_allreduce(x, place, 2, kType, kSum, comm); },
        [&] { return tutti_allreduce(place, place, 2, kType, kSum, comm); },
        [&] { return tutti_iallreduce(place, place, 2, kType, kSum, comm, &request); },
        [&] { return tutti_broadcast(place, 2, kType, 0, comm); },
        [&] { return tutti_reduce(x, place, 2, kType, kSum, rank, comm); },
        [&] { return tutti_reduce(place, place, 2, kType, kSum, rank, comm); },
        [&] { return tutti_reduce_scatter_block(x, place, 2, kType, kSum, comm); },
        [&] { return tutti_reduce_scatter(x, place, counts, kType, kSum, comm); },
        [&] { return tutti_reduce_scatter(place, place, counts, kType, kSum, comm); },
        [&] { return tutti_scan(x, place, 2, kType, kSum, comm); },
        [&] { return tutti_exscan(place, place, 2, kType, kSum, comm); },
        [&] { return tutti_allgather(x, place, 2, kType, comm); },
        [&] { return tutti_allgatherv(x, 2, place, counts, nullptr, kType, comm); },
        [&] { return tutti_gather(x, place, 2, kType, rank, comm); },
        [&] { return tutti_gatherv(place, 2, place, counts, nullptr, kType, rank, comm); },
        [&] { return tutti_scatter(place, x, 2, kType, rank, comm); },
        [&] { return tutti_scatterv(place, counts, nullptr, place, 2, kType, rank, comm); },
        [&] { return tutti_alltoall(place, place, 2, kType, comm); },
        [&] { return tutti_alltoallv(x, counts, nullptr, place, counts, nullptr, kType, comm); },
        [&] { return tutti_send(place, 2, kType, rank, 0, comm); },
        [&] { return tutti_isend(place, 2, kType, rank, 0, comm, &request); },
        [&] { return tutti_recv(place, 2, kType, rank, 0, comm, nullptr); },
        [&] { return tutti_irecv(place, 2, kType, rank, 0, comm, &request); }};
    for (const bool after_good_ones : {false, true}) {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        if (after_good_ones) {
          EXPECT_OK(tutti_allreduce(place, x, 2, kType, kSum, comm));
          if (i == 3) {
            EXPECT_OK(tutti_broadcast(x, 2, kType, 0, comm));
          }
        }
        SCOPED_TRACE(i);
        expect_error(calls[i](), TUTTI_ERROR_ARGUMENT, {"TUTTI_IN_PLACE"});
      }
    }
    EXPECT_EQ(request, nullptr);
  });
}

TEST(Arguments, TimeoutsMayBeAsLongAsANumberCanSay) {
  Start start;
  start.options.timeout_ms = start.options.operation_timeout_ms = INT32_MAX;
  const ThreadRanks ranks(2, start);
  EXPECT_TRUE(ranks.up()) << ranks.errors();
}

TEST(Arguments, MoreRequestsThanAnIndexCanTell) {
  with_ranks(1, [](int, tutti_comm *) {
    tutti_request *none = nullptr;
    std::int32_t index = 0;
    expect_error(tutti_wait_any(std::size_t{INT32_MAX} + 1, &none, &index, nullptr), TUTTI_ERROR_ARGUMENT, {"count"});
    expect_error(tutti_wait_all(SIZE_MAX, &none, nullptr), TUTTI_ERROR_ARGUMENT, {"count"});
  });
}

}  // namespace
}  // namespace tutti::test

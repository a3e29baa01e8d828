// SPDX-License-Identifier: BSD-3-Clause
//
// Point-to-point through the C interface: blocking, started and probed, beside collectives, in communicators of some
// ranks; and what is refused. The rules of matching have tests of their own (tests/match).
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "api/expect.h"

namespace tutti::test {
namespace {

Ints pattern(std::size_t count, int salt) {
  Ints values(count);
  std::iota(values.begin(), values.end(), salt * 1000);
  return values;
}

TEST(PointToPoint, MessagesOfEverySizeArriveWithTheirStatus) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    for (const std::size_t count : {0u, 1u, 100u, 1024u, 1025u, 40'000u, 1'000'000u}) {
      const auto tag = static_cast<std::int32_t>(count);
      if (rank == 0) {
        const Ints data = pattern(count, 3);
        EXPECT_OK(tutti_send(data.data(), count, TUTTI_INT32, 1, tag, comm));
        EXPECT_OK(tutti_ssend(data.data(), count, TUTTI_INT32, 1, tag + 1, comm));
        continue;
      }
      for (int turn = 0; turn < 2; ++turn) {
        Ints buffer(count + 2, -1);
        tutti_status status = {};
        EXPECT_OK(tutti_recv(buffer.data(), count + 1, TUTTI_INT32, turn == 0 ? TUTTI_ANY_SOURCE : 0, tag + turn, comm,
                             &status));
        EXPECT_EQ(status.source, 0);
        EXPECT_EQ(status.tag, tag + turn);
        EXPECT_EQ(status.bytes, count * 4);
        EXPECT_EQ(status.result, TUTTI_SUCCESS);
        EXPECT_EQ(Ints(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count)), pattern(count, 3));
        EXPECT_EQ(buffer[count], -1);
      }
    }
  });
}

TEST(PointToPoint, RingsOfSendrecvDoNotBlock) {
  with_ranks(5, [](int rank, tutti_comm *comm) {
    for (const std::size_t count : {1u, 5000u, 300'000u}) {
      const Ints data = pattern(count, rank);
      Ints got(count);
      tutti_status status = {};
      EXPECT_OK(tutti_sendrecv(data.data(), count, TUTTI_INT32, (rank + 1) % 5, 7, got.data(), count, TUTTI_INT32,
                               (rank + 4) % 5, 7, comm, &status));
      EXPECT_EQ(got, pattern(count, (rank + 4) % 5));
      EXPECT_EQ(status.source, (rank + 4) % 5);
    }
    // A line, whose ends have nobody beside them.
    std::int32_t mine = rank, left = -7;
    tutti_status status = {};
    EXPECT_OK(tutti_sendrecv(&mine, 1, TUTTI_INT32, rank == 4 ? TUTTI_NO_RANK : rank + 1, 0, &left, 1, TUTTI_INT32,
                             rank == 0 ? TUTTI_NO_RANK : rank - 1, 0, comm, &status));
    EXPECT_EQ(left, rank == 0 ? -7 : rank - 1);
    EXPECT_EQ(status.source, rank == 0 ? TUTTI_NO_RANK : rank - 1);
  });
}

TEST(PointToPoint, TenThousandOutstandingOfEachKind) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    constexpr std::size_t kMessages = 10'000;
    std::vector<tutti_request *> requests;
    Ints out(kMessages), in(kMessages, -1);
    std::iota(out.begin(), out.end(), rank * 100'000);
    const auto send_all = [&] {
      for (std::size_t i = 0; i < kMessages; ++i)
        EXPECT_OK(tutti_isend(&out[i], 1, TUTTI_INT32, 1 - rank, static_cast<std::int32_t>(i % 7), comm,
                              &requests.emplace_back()));
    };
    const auto receive_all = [&] {
      // By tag, so in another order than they are sent.
      for (std::size_t tag = 0; tag < 7; ++tag)
        for (std::size_t i = tag; i < kMessages; i += 7)
          EXPECT_OK(tutti_irecv(&in[i], 1, TUTTI_INT32, TUTTI_ANY_SOURCE, static_cast<std::int32_t>(tag), comm,
                                &requests.emplace_back()));
    };
    if (rank == 0) send_all();
    receive_all();
    if (rank == 1) send_all();
    EXPECT_OK(tutti_wait_all(requests.size(), requests.data(), nullptr));
    Ints expected(kMessages);
    std::iota(expected.begin(), expected.end(), (1 - rank) * 100'000);
    EXPECT_EQ(in, expected);
  });
}

TEST(PointToPoint, WhoTakesMessagesAndThenComputesHoldsUpNobody) {
  std::atomic<int> sent = 0;
  const auto await = [&](int count) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (sent != count && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    EXPECT_EQ(sent, count);
  };
  with_ranks(2, [&](int rank, tutti_comm *comm) {
    // As many as are sent without an answer, and once more.
    constexpr int kCredits = 8;
    std::int32_t value = 0;
    if (rank == 0) {
      for (; sent < 2 * kCredits; ++sent) EXPECT_OK(tutti_send(&value, 1, TUTTI_INT32, 1, 0, comm));
    } else {
      await(kCredits);
      for (int i = 0; i < kCredits; ++i) EXPECT_OK(tutti_recv(&value, 1, TUTTI_INT32, 0, 0, comm, nullptr));
      await(2 * kCredits);
      for (int i = 0; i < kCredits; ++i) EXPECT_OK(tutti_recv(&value, 1, TUTTI_INT32, 0, 0, comm, nullptr));
    }
    EXPECT_OK(tutti_barrier(comm));
  });
}

TEST(PointToPoint, ProbesSeeWhatAReceiveWouldMatch) {
  with_ranks(3, [](int rank, tutti_comm *comm) {
    if (rank != 0) {
      const Ints data = pattern(100 * static_cast<std::size_t>(rank), rank);
      EXPECT_OK(tutti_send(data.data(), data.size(), TUTTI_INT32, 0, 10 + rank, comm));
      EXPECT_OK(tutti_barrier(comm));
      return;
    }
    tutti_status status = {};
    EXPECT_OK(tutti_probe(TUTTI_ANY_SOURCE, 12, comm, &status));
    EXPECT_EQ(status.source, 2);
    EXPECT_EQ(status.bytes, 800u);
    std::int32_t found = 7;
    EXPECT_OK(tutti_iprobe(2, 99, comm, &found, &status));
    EXPECT_EQ(found, 0);
    while (found == 0) EXPECT_OK(tutti_iprobe(1, TUTTI_ANY_TAG, comm, &found, &status));
    EXPECT_EQ(status.tag, 11);
    Ints buffer(status.bytes / 4);
    EXPECT_OK(tutti_recv(buffer.data(), buffer.size(), TUTTI_INT32, status.source, status.tag, comm, nullptr));
    EXPECT_EQ(buffer, pattern(100, 1));
    buffer.resize(200);
    EXPECT_OK(tutti_recv(buffer.data(), buffer.size(), TUTTI_INT32, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, comm, nullptr));
    EXPECT_EQ(buffer, pattern(200, 2));
    EXPECT_OK(tutti_barrier(comm));
  });
}

TEST(PointToPoint, AMessageThatIsTooLongIsTruncated) {
  for (const std::size_t count : {10u, 200'000u})
    with_ranks(2, [&](int rank, tutti_comm *comm) {
      const Ints data = pattern(count, 0);
      if (rank == 0) {
        EXPECT_OK(tutti_send(data.data(), count, TUTTI_INT32, 1, 0, comm));
        EXPECT_OK(tutti_send(data.data(), count, TUTTI_INT32, 1, 1, comm));
        return;
      }
      Ints buffer(count, -1);
      tutti_status status = {};
      expect_error(tutti_recv(buffer.data(), count - 1, TUTTI_INT32, 0, 0, comm, &status), TUTTI_ERROR_TRUNCATED,
                   {"rank 0"});
      EXPECT_EQ(status.bytes, count * 4);
      EXPECT_EQ(status.result, TUTTI_ERROR_TRUNCATED);
      EXPECT_EQ(buffer[count - 2], data[count - 2]);
      EXPECT_EQ(buffer[count - 1], -1) << "nothing beyond the buffer";
      EXPECT_OK(tutti_recv(buffer.data(), count, TUTTI_INT32, 0, 1, comm, &status)) << "the next one is whole";
      EXPECT_EQ(buffer, data);
    });
}

TEST(PointToPoint, ToOneself) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    for (const std::size_t count : {1u, 1000u, 200'000u}) {
      const Ints data = pattern(count, rank);
      Ints got(count);
      EXPECT_OK(tutti_sendrecv(data.data(), count, TUTTI_INT32, rank, 3, got.data(), count, TUTTI_INT32, rank, 3, comm,
                               nullptr));
      EXPECT_EQ(got, data);
      tutti_request *send = nullptr;
      EXPECT_OK(tutti_issend(data.data(), count, TUTTI_INT32, rank, 4, comm, &send));
      std::int32_t done = 7;
      EXPECT_OK(tutti_test(&send, &done, nullptr));
      EXPECT_EQ(done, 0) << "synchronous, and nobody receives yet";
      got.assign(count, 0);
      EXPECT_OK(tutti_recv(got.data(), count, TUTTI_INT32, TUTTI_ANY_SOURCE, 4, comm, nullptr));
      EXPECT_EQ(got, data);
      EXPECT_OK(tutti_wait(&send, nullptr));
    }
  });
}

// Both kinds of traffic at once on several communicators: neither takes the other's messages or memory.
TEST(PointToPoint, BesideCollectivesAndInOtherCommunicators) {
  with_ranks(4, [](int rank, tutti_comm *world) {
    tutti_comm *reversed = nullptr;
    EXPECT_OK(tutti_comm_split(world, 0, -rank, &reversed));
    for (int turn = 0; turn < 30; ++turn) {
      const std::size_t count = turn % 3 == 0 ? 70'000 : 50;
      Ints sums(count, rank), here(count), there(count);
      const Ints data = pattern(count, rank + turn), other = pattern(count, 50 + rank + turn);
      std::vector<tutti_request *> requests(5);
      // The same tag in both: rank 3 - r of the reversed one is rank r of the world.
      EXPECT_OK(tutti_irecv(here.data(), count, TUTTI_INT32, TUTTI_ANY_SOURCE, 5, world, &requests[0]));
      EXPECT_OK(tutti_irecv(there.data(), count, TUTTI_INT32, TUTTI_ANY_SOURCE, 5, reversed, &requests[1]));
      EXPECT_OK(tutti_iallreduce(TUTTI_IN_PLACE, sums.data(), count, TUTTI_INT32, TUTTI_SUM, world, &requests[2]));
      EXPECT_OK(tutti_isend(other.data(), count, TUTTI_INT32, (3 - rank + 1) % 4, 5, reversed, &requests[3]));
      EXPECT_OK(tutti_isend(data.data(), count, TUTTI_INT32, (rank + 1) % 4, 5, world, &requests[4]));
      EXPECT_OK(tutti_wait_all(requests.size(), requests.data(), nullptr));
      EXPECT_EQ(sums, Ints(count, 6));
      EXPECT_EQ(here, pattern(count, (rank + 3) % 4 + turn));
      EXPECT_EQ(there, pattern(count, 50 + (rank + 1) % 4 + turn));
    }
    EXPECT_OK(tutti_comm_free(&reversed));
  });
}

TEST(PointToPoint, MistakesAreErrors) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    std::int32_t value = rank;
    tutti_request *request = nullptr;
    expect_error(tutti_send(&value, 1, TUTTI_INT32, 2, 0, comm), TUTTI_ERROR_ARGUMENT,
                 {"tutti_send", "to 2", "0 to 1"});
    expect_error(tutti_send(&value, 1, TUTTI_INT32, -1, 0, comm), TUTTI_ERROR_ARGUMENT, {"to -1"});
    expect_error(tutti_send(&value, 1, TUTTI_INT32, 0, -1, comm), TUTTI_ERROR_ARGUMENT, {"tag -1"});
    expect_error(tutti_send(nullptr, 1, TUTTI_INT32, 0, 0, comm), TUTTI_ERROR_ARGUMENT, {"data is null"});
    expect_error(tutti_send(&value, 1, 999, 0, 0, comm), TUTTI_ERROR_TYPE, {"type 999"});
    expect_error(tutti_send(&value, 1, TUTTI_INT32, 0, 0, nullptr), TUTTI_ERROR_COMM, {"tutti_send"});
    expect_error(tutti_recv(&value, 1, TUTTI_INT32, 2, 0, comm, nullptr), TUTTI_ERROR_ARGUMENT, {"from 2"});
    expect_error(tutti_recv(&value, 1, TUTTI_INT32, 0, -2, comm, nullptr), TUTTI_ERROR_ARGUMENT, {"tag -2"});
    expect_error(tutti_recv(nullptr, 1, TUTTI_INT32, 0, 0, comm, nullptr), TUTTI_ERROR_ARGUMENT, {"buffer is null"});
    expect_error(tutti_irecv(&value, 1, TUTTI_INT32, 0, 0, comm, nullptr), TUTTI_ERROR_ARGUMENT, {"request is null"});
    expect_error(tutti_isend(&value, 1, TUTTI_INT32, 9, 0, comm, &request), TUTTI_ERROR_ARGUMENT, {"to 9"});
    EXPECT_EQ(request, nullptr);
    expect_error(tutti_iprobe(0, 0, comm, nullptr, nullptr), TUTTI_ERROR_ARGUMENT, {"found is null"});
    expect_error(tutti_probe(3, 0, comm, nullptr), TUTTI_ERROR_ARGUMENT, {"from 3"});
    EXPECT_EQ(sum(comm, 10), TUTTI_SUCCESS) << "nothing is disturbed";
  });
}

TEST(PointToPoint, WhatNobodyServesTimesOut) {
  for (const bool probes : {false, true})
    with_ranks(2,
               [probes](int rank, tutti_comm *comm) {
                 if (rank != 0) return;
                 std::int32_t value = 0;
                 if (probes)
                   expect_error(tutti_probe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, comm, nullptr), TUTTI_ERROR_TIMEOUT,
                                {"probe for a receive with any tag from any rank has waited", "TUTTI_TIMEOUT"});
                 else
                   expect_error(tutti_recv(&value, 1, TUTTI_INT32, 1, 5, comm, nullptr), TUTTI_ERROR_TIMEOUT,
                                {"receive with tag 5 from rank 1 has waited", "TUTTI_TIMEOUT"});
               },
               {{"TUTTI_TIMEOUT", "1"}, {"TUTTI_P2P_WINDOW", "8K"}});
}

}  // namespace
}  // namespace tutti::test

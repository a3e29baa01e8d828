// SPDX-License-Identifier: BSD-3-Clause
//
// Small collectives on boards, as programs meet them: sleeping ranks, communicators that come and go, several threads,
// connections that break meanwhile.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "api/expect.h"
#include "support/query.h"

namespace tutti::test {
namespace {

#define ASSERT_OK(call) ASSERT_EQ(call, TUTTI_SUCCESS) << last_error().text

using Clock = std::chrono::steady_clock;

std::int64_t sum_of(tutti_comm *comm, std::int64_t value) {
  std::int64_t result = 0;
  EXPECT_OK(tutti_allreduce(&value, &result, 1, TUTTI_INT64, TUTTI_SUM, comm));
  return result;
}

// Without being woken, a sleeper looks only twice a second.
TEST(Boards, SleepersAreWoken) {
  constexpr int kTimes = 12;
  std::atomic<int> late = 0;
  std::atomic<Clock::rep> began = 0;
  with_ranks(2, [&](int rank, tutti_comm *comm) {
    for (int time = 0; time < kTimes; ++time) {
      if (rank == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        began = Clock::now().time_since_epoch().count();
      }
      std::int32_t value = rank == 0 ? time : -1;
      EXPECT_OK(tutti_broadcast(&value, 1, TUTTI_INT32, 0, comm));
      EXPECT_EQ(value, time);
      if (rank == 1)
        late += Clock::now().time_since_epoch().count() - began > std::chrono::nanoseconds(100'000'000).count();
      EXPECT_OK(tutti_barrier(comm));
    }
  });
  EXPECT_LT(late, kTimes / 2);
}

TEST(Boards, OfCommunicatorsThatComeAndGoAreUsedAgain) {
  with_ranks(3,
             [](int rank, tutti_comm *comm) {
               for (int round = 0; round < 60; ++round) {
                 tutti_comm *all = nullptr, *some = nullptr;
                 ASSERT_OK(tutti_comm_dup(comm, &all));
                 // Pairs that change, which share a number with nobody else.
                 const int alone = round % 3;
                 ASSERT_OK(tutti_comm_split(comm, rank == alone ? 1 : 0, 0, &some));
                 for (int call = 0; call < 5; ++call) {
                   EXPECT_EQ(sum_of(all, 100 * round + call + rank), 3 * (100 * round + call) + 3);
                   const std::int64_t mine = 7 * round + rank;
                   EXPECT_EQ(sum_of(some, mine), rank == alone ? mine : 14 * round + 3 - alone);
                 }
                 ASSERT_OK(tutti_comm_free(&some));
                 ASSERT_OK(tutti_comm_free(&all));
               }
             },
             {{"TUTTI_BOARDS", "3"}});
}

TEST(Boards, ServeSeveralThreadsOfARank) {
  with_ranks(
      2,
      [](int rank, tutti_comm *comm) {
        std::array<tutti_comm *, 3> comms{};
        for (tutti_comm *&each : comms) ASSERT_OK(tutti_comm_dup(comm, &each));
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < comms.size(); ++i)
          threads.emplace_back([&, i] {
            for (int call = 0; call < 300; ++call) {
              const auto base = static_cast<std::int64_t>(i) * 1000 + call;
              ASSERT_EQ(sum_of(comms[i], base + rank), 2 * base + 1);
            }
          });
        for (std::thread &thread : threads) thread.join();
        for (tutti_comm *&each : comms) EXPECT_OK(tutti_comm_free(&each));
      },
      {}, true);
}

// While a link is made again its peer's pages are not mapped.
TEST(Boards, GoOnWhereConnectionsAreMadeAgain) {
  Start start;
  start.variables = [](int rank) {
    return rank == 1 ? Variables{{"TUTTI_SOFTDEV", "fault=qp_error:~40,seed=3"}} : Variables{};
  };
  ThreadRanks ranks(3, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    for (int call = 0; call < 400; ++call) {
      std::int32_t value = rank * 1000 + call, got = -1;
      ASSERT_OK(tutti_sendrecv(&value, 1, TUTTI_INT32, (rank + 1) % 3, 1, &got, 1, TUTTI_INT32, (rank + 2) % 3, 1, comm,
                               nullptr));
      ASSERT_EQ(got, (rank + 2) % 3 * 1000 + call);
      ASSERT_EQ(sum_of(comm, value), 3000 + 3 * call);
    }
  });
  int reconnects = 0;
  for (const nlohmann::json &link : query(ranks[1].comm, "links")) reconnects += link["reconnects"].get<int>();
  EXPECT_GT(reconnects, 2);
}

// Which may write to what it gets.
TEST(Boards, AreNotForOperatorsOfPrograms) {
  with_ranks(3, [](int rank, tutti_comm *comm) {
    tutti_op op = TUTTI_OP_NULL;
    const auto add = [](const void *in, void *inout, std::size_t count, void *) {
      auto *other = static_cast<std::int64_t *>(const_cast<void *>(in));
      for (std::size_t i = 0; i < count; ++i) {
        static_cast<std::int64_t *>(inout)[i] += other[i];
        other[i] = -1'000'000;
      }
    };
    ASSERT_OK(tutti_op_create(add, 1, sizeof(std::int64_t), nullptr, &op));
    for (const char *algorithm : {"allreduce:table", "allreduce:board", "allreduce:board_blocks"}) {
      SCOPED_TRACE(algorithm);
      ASSERT_OK(tutti_comm_set_algorithms(comm, algorithm));
      int wrong = 0;
      for (int call = 0; call < 1000; ++call) {
        // By the same algorithm, this one may be on the board.
        std::int64_t value = rank + call, result = 0;
        ASSERT_OK(tutti_allreduce(&value, &result, 1, TUTTI_INT64, TUTTI_SUM, comm));
        wrong += result != 3 + 3 * call;
        ASSERT_OK(tutti_allreduce(&value, &result, 1, TUTTI_OP_ELEMENT, op, comm));
        wrong += result != 3 + 3 * call;
      }
      EXPECT_EQ(wrong, 0);
    }
    EXPECT_OK(tutti_op_free(&op));
  });
}

// Rank 2 reaches both others by one device, by which they do not reach each other.
TEST(Boards, AreNotForRanksWithSeveralSoftwareDevices) {
  Start start;
  start.variables = [](int rank) {
    return Variables{{"TUTTI_SOFTDEV", rank == 2 ? "device=s2,subnet=b" : "device=s1,subnet=a;device=s2,subnet=b"}};
  };
  ThreadRanks ranks(3, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    for (int call = 0; call < 100; ++call) ASSERT_EQ(sum_of(comm, rank), 3);
    EXPECT_EQ(query(comm, "choice allreduce 8").get<std::string>().find("board"), std::string::npos);
  });
}

// A rank that dies in front of a call on a board.
TEST(Boards, OfADeadRankAreAnError) {
  ThreadRanks ranks(3);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    EXPECT_EQ(sum_of(comm, rank), 3);
    if (rank == 2) {
      EXPECT_OK(tutti_abort(comm));
      return;
    }
    std::int64_t value = 1;
    tutti_result result = TUTTI_SUCCESS;
    while (result == TUTTI_SUCCESS) result = tutti_allreduce(TUTTI_IN_PLACE, &value, 1, TUTTI_INT64, TUTTI_SUM, comm);
    EXPECT_EQ(result, TUTTI_ERROR_PEER) << last_error().text;
    expect_text(last_error(), {"rank 2"});
  });
}

}  // namespace
}  // namespace tutti::test

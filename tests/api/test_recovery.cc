// SPDX-License-Identifier: BSD-3-Clause
//
// Connections that break under a running program: it gets right results, and notices nothing but time. What cannot be
// made again is an error that says so.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "expect.h"

namespace tutti::test {
namespace {

using Json = nlohmann::json;

Variables faults(const std::string &call, std::initializer_list<int> moments) {
  std::string text;
  for (const int nth : moments) text += fmt::format("{}fault={}:{}", text.empty() ? "" : ",", call, nth);
  return {{"TUTTI_SOFTDEV", text}};
}

// Of all links of a rank.
int links(tutti_comm *comm, const char *what) {
  std::string text(65536, '\0');
  std::size_t bytes = text.size();
  EXPECT_OK(tutti_query(comm, "links", text.data(), &bytes));
  int sum = 0;
  for (const Json &link : Json::parse(text.c_str())) sum += link[what].get<int>();
  return sum;
}

// Allreduce, broadcast and messages of many sizes, every byte compared.
void check_traffic(int rank, int ranks, tutti_comm *comm, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (const std::size_t count : {1u, 2u, 500u, 3000u, 50'000u, 300'000u}) {
      Ints sums(count, rank + round), copy(count, rank == round % ranks ? round : -1);
      ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, sums.data(), count, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_SUCCESS)
          << last_error().text;
      ASSERT_EQ(std::ranges::count(sums, ranks * (ranks - 1) / 2 + ranks * round), std::ssize(sums)) << count;
      ASSERT_EQ(tutti_broadcast(copy.data(), count, TUTTI_INT32, round % ranks, comm), TUTTI_SUCCESS)
          << last_error().text;
      ASSERT_EQ(std::ranges::count(copy, round), std::ssize(copy)) << count;
      const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
      Ints out(count, rank * 1000 + round), in(count);
      ASSERT_EQ(tutti_sendrecv(out.data(), count, TUTTI_INT32, right, 7, in.data(), count, TUTTI_INT32, left, 7, comm,
                               nullptr),
                TUTTI_SUCCESS)
          << last_error().text;
      ASSERT_EQ(std::ranges::count(in, left * 1000 + round), std::ssize(in)) << count;
    }
  }
}

TEST(Recovery, BrokenConnectionsAreMadeAgainUnderTraffic) {
  Start start = over_messages();
  start.variables = [](int rank) {
    return rank == 0   ? faults("qp_error", {3, 50, 51, 200, 333, 700})
           : rank == 1 ? faults("qp_error", {1, 2, 90, 400})
                       : faults("qp_error", {40, 41, 42, 43, 600});
  };
  ThreadRanks ranks(3, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  std::atomic<int> made_again = 0, sent_again = 0;
  ranks.each([&](int rank, tutti_comm *comm) {
    check_traffic(rank, 3, comm, 4);
    made_again += links(comm, "reconnects");
    sent_again += links(comm, "retransmitted");
  });
  // Each break is one reconnect on either end, unless two fall together.
  EXPECT_GE(made_again, 8);
  EXPECT_GE(sent_again, 1);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kEvery = 7;  // worlds take long there
#else
constexpr int kEvery = 1;
#endif

// Every moment of a short program, finalize included, on either rank.
TEST(Recovery, AtEveryWorkRequest) {
  for (int rank = 0; rank < 2; ++rank)
    for (int nth = 1; nth <= 60; nth += kEvery) {
      Start start = over_messages();
      start.variables = [&](int r) { return r == rank ? faults("qp_error", {nth}) : Variables{}; };
      ThreadRanks ranks(2, start);
      ASSERT_TRUE(ranks.up()) << ranks.errors();
      ranks.each([](int r, tutti_comm *comm) { check_traffic(r, 2, comm, 1); });
      ranks.each([&](int r, tutti_comm *) { EXPECT_OK(tutti_comm_free(&ranks[r].comm)); });
      if (testing::Test::HasFailure()) FAIL() << "request " << nth << " of rank " << rank;
    }
}

// What the way to a new connection needs may fail, too: it is tried again.
TEST(Recovery, AttemptsThatFailAreRepeated) {
  for (const char *call : {"create_qp", "modify_qp"}) {
    Start start = over_messages();
    start.variables = [&](int rank) {
      Variables variables = faults("qp_error", {20, 60});
      if (rank == 0)
        for (const int nth : {4, 5, 7, 9, 10}) variables["TUTTI_SOFTDEV"] += fmt::format(",fault={}:{}", call, nth);
      return variables;
    };
    ThreadRanks ranks(2, start);
    ASSERT_TRUE(ranks.up()) << ranks.errors();  // that makes three such calls, and is not repeated
    ranks.each([](int rank, tutti_comm *comm) { check_traffic(rank, 2, comm, 2); });
  }
}

TEST(Recovery, ARankThatComputesIsWaitedFor) {
  Start start = over_messages({{"TUTTI_RECONNECT_TIMEOUT", "3"}});
  start.variables = [](int rank) { return rank == 1 ? faults("qp_error", {4}) : Variables{}; };
  ThreadRanks ranks(2, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    for (int call = 0; call < 20; ++call) {
      if (rank == 0 && call == 2) std::this_thread::sleep_for(std::chrono::milliseconds(7000));
      ASSERT_EQ(sum(comm, 100), TUTTI_SUCCESS) << last_error().text;
    }
  });
}

TEST(Recovery, WhatCannotBeMadeAgainIsAnErrorThatSaysWhy) {
  Start start = over_messages({{"TUTTI_RECONNECT_TIMEOUT", "1"}});
  // From the 2nd on (the first is made at start-up) no queue pair can be made.
  start.variables = [](int rank) {
    Variables variables;
    if (rank == 1) {
      variables = faults("qp_error", {30});
      for (int nth = 2; nth < 60; ++nth) variables["TUTTI_SOFTDEV"] += fmt::format(",fault=create_qp:{}", nth);
    }
    return variables;
  };
  ThreadRanks ranks(2, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  std::atomic<int> said = 0;
  ranks.each([&](int, tutti_comm *comm) {
    const tutti_error error = error_of_calls(comm, 1000);
    EXPECT_TRUE(error.result == TUTTI_ERROR_LINK || error.result == TUTTI_ERROR_PEER) << error.text;
    said += std::string(error.text).find("could not be made again") != std::string::npos &&
            std::string(error.text).find("TUTTI_RECONNECT_TIMEOUT") != std::string::npos;
    EXPECT_NE(sum(comm, 1), TUTTI_SUCCESS) << "later calls fail at once";
  });
  EXPECT_GE(said, 1);
}

TEST(Recovery, ADeviceThatFailsIsTheEndOfItsConnectionsAtOnce) {
  Start start = over_messages();
  start.variables = [](int rank) { return rank == 1 ? faults("device_fatal", {30}) : Variables{}; };
  ThreadRanks ranks(3, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  std::atomic<int> said = 0;
  // With a minute for reconnecting, which is not waited for (the test has half of that).
  const auto begin = std::chrono::steady_clock::now();
  ranks.each([&](int rank, tutti_comm *comm) {
    const tutti_error error = error_of_calls(comm, 1000);
    EXPECT_TRUE(error.result == TUTTI_ERROR_LINK || error.result == TUTTI_ERROR_PEER) << error.text;
    said += rank == 1 && std::string(error.text).find("the device software of this rank failed") != std::string::npos;
  });
  EXPECT_EQ(said, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace tutti::test

// SPDX-License-Identifier: BSD-3-Clause
//
// What ranks tell of themselves: at the end (TUTTI_STATS), when a call times out (the flight recorder), and to who asks
// for it from outside (tutti-info --job).
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "expect.h"
#include "support/shell.h"

namespace tutti::test {
namespace {

using Json = nlohmann::json;

std::size_t count_of(const std::string &text, const std::string &part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Json operations(tutti_comm *comm) {
  std::size_t bytes = 1 << 16;
  std::string text(bytes, '\0');
  EXPECT_OK(tutti_query(comm, "operations", text.data(), &bytes));
  return Json::parse(text.c_str());
}

// What three ranks say on stderr from start to end; connections of rank 1 break under them, if so wanted.
std::string told(const Variables &everywhere, bool breaks) {
  testing::internal::CaptureStderr();
  Start start;
  start.everywhere = everywhere;
  start.everywhere["TUTTI_ALGO"] = "allreduce:direct";  // every rank sends to every other
  start.variables = [&](int rank) {
    return rank == 1 && breaks ? Variables{{"TUTTI_SOFTDEV", "fault=qp_error:~10"}} : Variables{};
  };
  {
    ThreadRanks ranks(3, start);
    EXPECT_TRUE(ranks.up()) << ranks.errors();
    // Freed at once: a rank that has left the library sends nothing again.
    ranks.each([&](int rank, tutti_comm *comm) {
      for (int call = 0; call < 30; ++call) EXPECT_OK(sum(comm, 3000));
      EXPECT_OK(tutti_comm_free(&ranks[rank].comm));
    });
  }
  return testing::internal::GetCapturedStderr();
}

TEST(Statistics, AreToldAtTheEndIfAskedFor) {
  EXPECT_EQ(told({}, false), "");
  const std::string text = told({{"TUTTI_STATS", "1"}}, false);
  EXPECT_EQ(text.rfind("tutti[0]: ", 0), 0u) << "rank 0 comes first: " << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << "one line a rank: " << text;
  for (const char *part : {"tutti[1]: ", "tutti[2]: ", " s among 3 ranks: sent ", "KiB", "0 reconnects, 0 sent again"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
}

TEST(Statistics, HaveARowForEachPeerWithWhomSomethingHappened) {
  const std::string text = told({{"TUTTI_STATS", "1"}}, true);
  EXPECT_EQ(count_of(text, "sent again\n"), 6u) << "a line, and a table's head, of each rank:\n" << text;
  EXPECT_EQ(count_of(text, "  up  ") + count_of(text, "  reconnecting  "), 4u)
      << "two peers of rank 1, and rank 1 on two others:\n"
      << text;
  EXPECT_EQ(count_of(text, "; 0 reconnects"), 0u) << text;
}

TEST(Operations, TheLastOnesAreKept) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    EXPECT_EQ(operations(comm).size(), 0u);
    EXPECT_OK(sum(comm, 10));
    tutti_comm *other = nullptr;
    EXPECT_OK(tutti_comm_dup(comm, &other));
    EXPECT_OK(sum(other, 20));
    Json all = operations(comm);
    EXPECT_EQ(all[0], "allreduce of 20 x int32, sum (call 1) on communicator 1, done");
    EXPECT_EQ(all[all.size() - 1], "allreduce of 10 x int32, sum (call 1), done");
    tutti_request *request = nullptr;
    std::int32_t value = 0;
    EXPECT_OK(tutti_irecv(&value, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, comm, &request));
    EXPECT_OK(tutti_send(&rank, 1, TUTTI_INT32, 1 - rank, 7, comm));
    all = operations(comm);
    EXPECT_EQ(all[0], "send of 4 bytes with tag 7 to rank " + std::to_string(1 - rank));
    EXPECT_EQ(all[1], "receive of up to 4 bytes with any tag from any rank");
    EXPECT_OK(tutti_wait(&request, nullptr));
    tutti_call repeated = TUTTI_INIT_STRUCT(tutti_call);
    repeated.collective = TUTTI_BARRIER;
    EXPECT_OK(tutti_call_init(&repeated, comm, &request));
    for (int start = 0; start < 2; ++start) {
      EXPECT_OK(tutti_start(request));
      EXPECT_OK(tutti_wait(&request, nullptr));
    }
    EXPECT_EQ(operations(comm)[0], "barrier (start 2 of persistent call 1), done");
    EXPECT_OK(tutti_request_free(&request));
    for (int call = 0; call < 200; ++call) EXPECT_OK(sum(comm, 10));
    all = operations(comm);
    EXPECT_EQ(all.size(), 64u);
    EXPECT_OK(tutti_comm_free(&other));
  });
}

// What three ranks say when ranks 0 and 1 wait in an allreduce, and rank 2 does something else, which may depend on how
// many of them have given up.
std::string told_in_the_end(const std::function<tutti_result(tutti_comm *, const std::atomic<int> &given_up)> &third) {
  std::barrier together(3);  // nobody is still in the broadcast when another's time is over
  std::atomic<int> given_up = 0;
  testing::internal::CaptureStderr();
  with_ranks(3,
             [&](int rank, tutti_comm *comm) {
               std::int32_t value = 1;
               EXPECT_OK(tutti_broadcast(&value, 1, TUTTI_INT32, 0, comm));
               together.arrive_and_wait();
               EXPECT_EQ(rank == 2 ? third(comm, given_up) : sum(comm, 100), TUTTI_ERROR_TIMEOUT) << last_error().text;
               EXPECT_NE(sum(comm, 1), TUTTI_SUCCESS);  // and says nothing more
               ++given_up;
               given_up.notify_all();
             },
             {{"TUTTI_TIMEOUT", "2"}});
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(text, "flight records of 3 ranks:\n  rank 0: "), 1u) << text;
  for (const char *rank : {"0", "1"})
    EXPECT_EQ(
        count_of(text, std::string("\n  rank ") + rank + ": operation 2, allreduce of 100 x int32, sum (call 2), "), 1u)
        << text;
  EXPECT_GE(count_of(text, " s without news; before it broadcast of 1 x int32 from root 0 (call 1), done\n"), 1u)
      << text;
  return text;
}

TEST(Operations, ARankInAnotherCallIsSeenWhenOneTimesOut) {
  const std::string text = told_in_the_end([](tutti_comm *comm, const std::atomic<int> &) {
    std::int32_t value = 0;
    return tutti_recv(&value, 1, TUTTI_INT32, 0, 9, comm, nullptr);
  });
  EXPECT_EQ(count_of(text, "\n  rank 2: operation 2, receive of up to 4 bytes with tag 9 from rank 0, "), 1u) << text;
  EXPECT_EQ(count_of(text, "comes when a call has timed out"), 0u) << text;
}

TEST(Operations, ARankThatComesLateIsSeenWhenOneTimesOut) {
  const std::string text = told_in_the_end([](tutti_comm *comm, const std::atomic<int> &given_up) {
    for (int count = 0; (count = given_up) < 2;) given_up.wait(count);
    // What the others have sent for the first call is there.
    tutti_result result = TUTTI_SUCCESS;
    for (int call = 0; call < 3 && result == TUTTI_SUCCESS; ++call) result = sum(comm, 100);
    return result;
  });
  EXPECT_EQ(count_of(text, "\n  rank 2: does not answer; it is outside of the library, or stopped\n"), 1u) << text;
  const std::size_t line = text.find("rank 2 comes when a call has timed out: operation ");
  ASSERT_NE(line, std::string::npos) << text;
  EXPECT_NE(text.substr(line, text.find('\n', line) - line).find("begun just now"), std::string::npos) << text;
}

TEST(Operations, OfManyRanksTheLowestTellsForAll) {
  std::barrier together(11);  // none starts when another's time is over
  testing::internal::CaptureStderr();
  with_ranks(11,
             [&](int rank, tutti_comm *comm) {
               std::int32_t value = 1;
               together.arrive_and_wait();
               EXPECT_EQ(rank == 7 ? tutti_recv(&value, 1, TUTTI_INT32, 0, 9, comm, nullptr) : sum(comm, 3),
                         TUTTI_ERROR_TIMEOUT)
                   << last_error().text;
             },
             {{"TUTTI_TIMEOUT", "2"}});
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(text, "flight records of 11 ranks:\n"), 1u) << text;
  EXPECT_EQ(count_of(text, "\n  rank  7: operation 1, receive of up to 4 bytes"), 1u) << text;
  EXPECT_EQ(count_of(text, ": operation 1, allreduce of 3 x int32, sum (call 1), "), 10u) << text;
}

std::string info(pid_t pid, int *status) {
  const Outcome outcome = shell(std::string(TUTTI_INFO) + " --job " + std::to_string(pid));
  *status = outcome.status;
  return outcome.output;
}

TEST(LiveView, ShowsTheRanksOfARunningProcess) {
  int status = -1;
  with_ranks(2,
             [](int rank, tutti_comm *comm) {
               // Each waits for the other, until both have been seen to: who waits looks around, and a picture lasts
               // for 100 ms.
               std::int32_t looked = 0;
               for (int turn = 0; turn < 50 && looked == 0; ++turn) {
                 for (const int late : {0, 1, 0, 1}) {
                   if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(150));
                   EXPECT_OK(sum(comm, 100));
                 }
                 int shown = -1;
                 const std::string text = rank == 0 ? info(::getpid(), &shown) : "";
                 looked = text.find("never") == std::string::npos;
                 EXPECT_OK(tutti_broadcast(&looked, 1, TUTTI_INT32, 0, comm));
                 if (rank != 0 || looked == 0) continue;
                 EXPECT_EQ(shown, 0) << text;
                 for (const char *part :
                      {"Rank 0 of 2, process ", "Rank 1 of 2, process ", "shared receive queues: ", "  up  "})
                   EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
               }
               EXPECT_EQ(looked, 1) << "the picture of a rank that waits is never made";
             },
             {{"TUTTI_BOARDS", "0"}});  // so that there is traffic to be shown
  const std::string text = info(::getpid(), &status);
  EXPECT_EQ(status, 1) << "nothing is left of it: " << text;
  EXPECT_NE(text.find("shows no rank of Tutti"), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti::test

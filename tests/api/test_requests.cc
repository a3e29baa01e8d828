// SPDX-License-Identifier: BSD-3-Clause
//
// Requests: operations that are started and waited for later, persistent ones, and what is refused.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "api/expect.h"
#include "support/matches.h"

namespace tutti::test {
namespace {

TEST(Requests, AnOperationEndsWhenItIsWaitedFor) {
  with_ranks(3, [](int rank, tutti_comm *comm) {
    Ints buffer(100'000, rank);
    tutti_request *request = start_sum(buffer, comm);
    tutti_status status = {.source = 7, .tag = 7, .result = 7, .reserved = 0, .bytes = 7};
    EXPECT_OK(tutti_wait(&request, &status));
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(status.source, -1);
    EXPECT_EQ(status.tag, -1);
    EXPECT_EQ(status.result, TUTTI_SUCCESS);
    EXPECT_EQ(status.bytes, 0u);
    EXPECT_EQ(buffer, Ints(100'000, 3));
    EXPECT_OK(tutti_wait(&request, &status)) << "a null request is done";
  });
}

TEST(Requests, TestingLetsOperationsGoOn) {
  with_ranks(3, [](int rank, tutti_comm *comm) {
    Ints buffer(100'000, rank);
    tutti_request *request = start_sum(buffer, comm);
    std::int32_t done = 0;
    while (done == 0) ASSERT_EQ(TUTTI_SUCCESS, tutti_test(&request, &done, nullptr));
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(buffer, Ints(100'000, 3));
  });
}

// Each rank waits in an order of its own; sizes on both sides of every threshold.
TEST(Requests, ManyAtOnceInAnyOrderOfWaiting) {
  with_ranks(4, [](int rank, tutti_comm *comm) {
    constexpr int kCalls = 60;
    std::vector<Ints> buffers;
    std::vector<tutti_request *> requests;
    buffers.reserve(kCalls);
    requests.reserve(kCalls);
    for (int call = 0; call < kCalls; ++call)
      buffers.emplace_back(std::vector<std::size_t>{1, 100, 3000, 60'000, 300'000}[static_cast<std::size_t>(call % 5)],
                           rank * 100 + call);
    for (Ints &buffer : buffers) requests.push_back(start_sum(buffer, comm));
    std::vector<int> order(kCalls);
    std::iota(order.begin(), order.end(), 0);
    if (rank % 2 == 1) std::ranges::reverse(order);
    if (rank >= 2) std::rotate(order.begin(), order.begin() + 17, order.end());  // clang 14 cannot read ranges::rotate
    for (const int call : order) EXPECT_OK(tutti_wait(&requests[static_cast<std::size_t>(call)], nullptr));
    for (int call = 0; call < kCalls; ++call) {
      const Ints &buffer = buffers[static_cast<std::size_t>(call)];
      EXPECT_EQ(buffer, Ints(buffer.size(), 600 + 4 * call)) << call;
    }
  });
}

// Rank 0 waits for each before it starts the next; the others start all first.
TEST(Requests, OneAtATimeAgainstAllAtOnce) {
  with_ranks(3, [](int rank, tutti_comm *comm) {
    constexpr int kCalls = 30;
    std::vector<Ints> buffers(kCalls, Ints(70'000, rank));
    if (rank == 0) {
      for (Ints &buffer : buffers)
        EXPECT_OK(tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), buffer.size(), TUTTI_INT32, TUTTI_SUM, comm));
    } else {
      std::vector<tutti_request *> requests;
      requests.reserve(kCalls);
      for (Ints &buffer : buffers) requests.push_back(start_sum(buffer, comm));
      EXPECT_OK(tutti_wait_all(requests.size(), requests.data(), nullptr));
      EXPECT_EQ(std::ranges::count(requests, nullptr), kCalls);
    }
    for (const Ints &buffer : buffers) EXPECT_EQ(buffer, Ints(70'000, 3));
  });
}

TEST(Requests, TenThousandOutstanding) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    constexpr std::size_t kCalls = 10'000;
    Ints buffers(kCalls);
    for (std::size_t i = 0; i < kCalls; ++i) buffers[i] = static_cast<std::int32_t>(i) * (rank + 1);
    std::vector<tutti_request *> requests(kCalls);
    for (std::size_t i = 0; i < kCalls; ++i)
      ASSERT_EQ(TUTTI_SUCCESS,
                tutti_iallreduce(TUTTI_IN_PLACE, &buffers[i], 1, TUTTI_INT32, TUTTI_SUM, comm, &requests[i]));
    EXPECT_OK(tutti_wait_all(kCalls, requests.data(), nullptr));
    for (std::size_t i = 0; i < kCalls; ++i) ASSERT_EQ(buffers[i], 3 * static_cast<std::int32_t>(i));
  });
}

TEST(Requests, WaitAnyAndSomeNameWhatIsDone) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    std::vector<Ints> buffers(8, Ints(1000, rank));
    std::vector<tutti_request *> requests(10, nullptr);
    for (std::size_t i = 0; i < buffers.size(); ++i) requests[i + 1] = start_sum(buffers[i], comm);
    std::vector<bool> seen(10);
    std::int32_t index = 0;
    EXPECT_OK(tutti_wait_any(requests.size(), requests.data(), &index, nullptr));
    ASSERT_TRUE(index >= 1 && index <= 8) << index;
    EXPECT_EQ(requests[static_cast<std::size_t>(index)], nullptr);
    seen[static_cast<std::size_t>(index)] = true;
    std::size_t left = 7;
    while (left > 0) {
      std::size_t done = 99;
      std::vector<std::int32_t> indices(10);
      std::vector<tutti_status> statuses(10);
      if (left % 2 == 0) EXPECT_OK(tutti_test_some(requests.size(), requests.data(), &done, indices.data(), nullptr));
      else EXPECT_OK(tutti_wait_some(requests.size(), requests.data(), &done, indices.data(), statuses.data()));
      ASSERT_LE(done, left);
      for (std::size_t i = 0; i < done; ++i) {
        EXPECT_FALSE(seen[static_cast<std::size_t>(indices[i])]) << "named twice";
        seen[static_cast<std::size_t>(indices[i])] = true;
      }
      left -= done;
    }
    EXPECT_OK(tutti_wait_any(requests.size(), requests.data(), &index, nullptr));
    EXPECT_EQ(index, -1) << "nothing is left";
    EXPECT_OK(tutti_test_any(requests.size(), requests.data(), &index, nullptr));
    EXPECT_EQ(index, -1);
    std::int32_t all = 0;
    EXPECT_OK(tutti_test_all(requests.size(), requests.data(), &all, nullptr));
    EXPECT_EQ(all, 1);
    for (const Ints &buffer : buffers) EXPECT_EQ(buffer, Ints(1000, 1));
  });
}

// Each collective, started, beside the blocking one: the same results.
TEST(Requests, EveryCollectiveCanBeStarted) {
  with_ranks(3, [](int rank, tutti_comm *comm) {
    constexpr std::size_t kCount = 1000;
    constexpr tutti_type kType = TUTTI_INT32;
    Ints in(3 * kCount);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::int32_t>(i) * (rank + 2);
    const std::vector<std::size_t> counts = {500, 0, 1500}, one = {400, 400, 400};
    using Starts = std::function<tutti_result(const std::int32_t *, std::int32_t *, tutti_request **)>;
    using Runs = std::function<tutti_result(const std::int32_t *, std::int32_t *)>;
    const std::vector<std::pair<Starts, Runs>> calls = {
        {[&](auto a, auto b, auto r) { return tutti_iallreduce(a, b, kCount, kType, TUTTI_MAX, comm, r); },
         [&](auto a, auto b) { return tutti_allreduce(a, b, kCount, kType, TUTTI_MAX, comm); }},
        {[&](auto, auto b, auto r) { return tutti_ibroadcast(b, kCount, kType, 1, comm, r); },
         [&](auto, auto b) { return tutti_broadcast(b, kCount, kType, 1, comm); }},
        {[&](auto, auto, auto r) { return tutti_ibarrier(comm, r); }, [&](auto, auto) { return tutti_barrier(comm); }},
        {[&](auto a, auto b, auto r) { return tutti_ireduce(a, b, kCount, kType, TUTTI_SUM, 2, comm, r); },
         [&](auto a, auto b) { return tutti_reduce(a, b, kCount, kType, TUTTI_SUM, 2, comm); }},
        {[&](auto a, auto b, auto r) { return tutti_ireduce_scatter_block(a, b, kCount, kType, TUTTI_SUM, comm, r); },
         [&](auto a, auto b) { return tutti_reduce_scatter_block(a, b, kCount, kType, TUTTI_SUM, comm); }},
        {[&](auto a, auto b, auto r) { return tutti_ireduce_scatter(a, b, counts.data(), kType, TUTTI_SUM, comm, r); },
         [&](auto a, auto b) { return tutti_reduce_scatter(a, b, counts.data(), kType, TUTTI_SUM, comm); }},
        {[&](auto a, auto b, auto r) { return tutti_iscan(a, b, kCount, kType, TUTTI_SUM, comm, r); },
         [&](auto a, auto b) { return tutti_scan(a, b, kCount, kType, TUTTI_SUM, comm); }},
        {[&](auto a, auto b, auto r) { return tutti_iexscan(a, b, kCount, kType, TUTTI_SUM, comm, r); },
         [&](auto a, auto b) { return tutti_exscan(a, b, kCount, kType, TUTTI_SUM, comm); }},
        {[&](auto a, auto b, auto r) { return tutti_iallgather(a, b, kCount, kType, comm, r); },
         [&](auto a, auto b) { return tutti_allgather(a, b, kCount, kType, comm); }},
        {[&](auto a, auto b, auto r) {
           return tutti_iallgatherv(a, counts[static_cast<std::size_t>(rank)], b, counts.data(), nullptr, kType, comm,
                                    r);
         },
         [&](auto a, auto b) {
           return tutti_allgatherv(a, counts[static_cast<std::size_t>(rank)], b, counts.data(), nullptr, kType, comm);
         }},
        {[&](auto a, auto b, auto r) { return tutti_igather(a, b, kCount, kType, 0, comm, r); },
         [&](auto a, auto b) { return tutti_gather(a, b, kCount, kType, 0, comm); }},
        {[&](auto a, auto b, auto r) {
           return tutti_igatherv(a, counts[static_cast<std::size_t>(rank)], b, counts.data(), nullptr, kType, 1, comm,
                                 r);
         },
         [&](auto a, auto b) {
           return tutti_gatherv(a, counts[static_cast<std::size_t>(rank)], b, counts.data(), nullptr, kType, 1, comm);
         }},
        {[&](auto a, auto b, auto r) { return tutti_iscatter(a, b, kCount, kType, 2, comm, r); },
         [&](auto a, auto b) { return tutti_scatter(a, b, kCount, kType, 2, comm); }},
        {[&](auto a, auto b, auto r) {
           return tutti_iscatterv(a, counts.data(), nullptr, b, counts[static_cast<std::size_t>(rank)], kType, 0, comm,
                                  r);
         },
         [&](auto a, auto b) {
           return tutti_scatterv(a, counts.data(), nullptr, b, counts[static_cast<std::size_t>(rank)], kType, 0, comm);
         }},
        {[&](auto a, auto b, auto r) { return tutti_ialltoall(a, b, kCount, kType, comm, r); },
         [&](auto a, auto b) { return tutti_alltoall(a, b, kCount, kType, comm); }},
        {[&](auto a, auto b, auto r) {
           return tutti_ialltoallv(a, one.data(), nullptr, b, one.data(), nullptr, kType, comm, r);
         },
         [&](auto a, auto b) { return tutti_alltoallv(a, one.data(), nullptr, b, one.data(), nullptr, kType, comm); }},
    };
    ASSERT_EQ(calls.size(), 16u);
    std::vector<Ints> started(calls.size(), Ints(3 * kCount, rank)), run(calls.size(), Ints(3 * kCount, rank));
    std::vector<tutti_request *> requests(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i)
      EXPECT_OK(calls[i].first(in.data(), started[i].data(), &requests[i])) << i;
    EXPECT_OK(tutti_wait_all(requests.size(), requests.data(), nullptr));
    for (std::size_t i = 0; i < calls.size(); ++i) {
      EXPECT_OK(calls[i].second(in.data(), run[i].data())) << i;
      EXPECT_EQ(started[i], run[i]) << i;
    }
  });
}

TEST(Requests, APersistentRequestRunsAgainAndAgain) {
  with_ranks(3, [](int rank, tutti_comm *comm) {
    Ints in(5000), out(5000);
    tutti_request *request = nullptr;
    const tutti_call call = call_of(TUTTI_ALLREDUCE, in.data(), out.data(), in.size());
    ASSERT_EQ(TUTTI_SUCCESS, tutti_call_init(&call, comm, &request));
    EXPECT_OK(tutti_wait(&request, nullptr)) << "inactive is done";
    ASSERT_NE(request, nullptr) << "and stays";
    for (int turn = 0; turn < 50; ++turn) {
      std::ranges::fill(in, rank + turn);
      ASSERT_EQ(TUTTI_SUCCESS, tutti_start(request));
      if (turn == 0) {
        tutti_request *copy = request;
        expect_error(tutti_start(request), TUTTI_ERROR_STATE, {"is active"});
        expect_error(tutti_request_free(&copy), TUTTI_ERROR_STATE, {"is active"});
      }
      ASSERT_EQ(TUTTI_SUCCESS, tutti_wait(&request, nullptr));
      ASSERT_EQ(out, Ints(5000, 3 + 3 * turn));
    }
    tutti_request *stale = request;
    EXPECT_OK(tutti_request_free(&request));
    EXPECT_EQ(request, nullptr);
    expect_error(tutti_start(stale), TUTTI_ERROR_ARGUMENT, {"freed before"});
  });
}

// The caller's lists may go once the request is made.
TEST(Requests, APersistentRequestKeepsItsLists) {
  with_ranks(3, [](int rank, tutti_comm *comm) {
    Ints in(6, rank), out(6, -1);
    std::vector<std::size_t> counts = {1, 2, 3}, displs = {5, 3, 0};
    tutti_call call = call_of(TUTTI_ALLGATHERV, in.data(), out.data(), static_cast<std::size_t>(rank) + 1);
    call.out_counts = counts.data();
    call.out_displs = displs.data();
    tutti_request *request = nullptr;
    ASSERT_EQ(TUTTI_SUCCESS, tutti_call_init(&call, comm, &request));
    counts.assign(3, 999);
    displs.assign(3, 999);
    for (int turn = 0; turn < 3; ++turn) {
      std::ranges::fill(out, -1);
      ASSERT_EQ(TUTTI_SUCCESS, tutti_start(request));
      ASSERT_EQ(TUTTI_SUCCESS, tutti_wait(&request, nullptr));
      ASSERT_EQ(out, (Ints{2, 2, 2, 1, 1, 0}));
    }
    EXPECT_OK(tutti_request_free(&request));
  });
}

TEST(Requests, ACallNamesItsAlgorithm) {
  with_ranks(3, [](int rank, tutti_comm *comm) {
    Ints buffer(9, rank);
    tutti_call call = call_of(TUTTI_ALLREDUCE, TUTTI_IN_PLACE, buffer.data(), buffer.size());
    call.algorithm = "ring";
    EXPECT_OK(tutti_run_call(&call, comm));
    EXPECT_EQ(buffer, Ints(9, 3));
    call.algorithm = "circulant:skips=1-2";
    EXPECT_OK(tutti_run_call(&call, comm));
    EXPECT_EQ(buffer, Ints(9, 9));
    call.algorithm = "circulant:skips=1-3";
    expect_error(tutti_run_call(&call, comm), TUTTI_ERROR_CONFIG, {"skip 3 is not below the number of ranks"});
    call.algorithm = "circulant:skips=3";
    expect_error(tutti_run_call(&call, comm), TUTTI_ERROR_ARGUMENT, {"the first of a list of skips is 1, not 3"});
    call.algorithm = "rings";
    expect_error(tutti_run_call(&call, comm), TUTTI_ERROR_ARGUMENT, {"no algorithm 'rings'", "tutti-sched list"});
    call.algorithm = nullptr;
    call.collective = 99;
    tutti_request *request = nullptr;
    expect_error(tutti_start_call(&call, comm, &request), TUTTI_ERROR_ARGUMENT, {"collective 99 is unknown"});
    expect_error(tutti_call_init(nullptr, comm, &request), TUTTI_ERROR_ARGUMENT, {"call is null"});
    call.size = 0;
    expect_error(tutti_call_init(&call, comm, &request), TUTTI_ERROR_ARGUMENT, {"TUTTI_INIT_STRUCT(tutti_call)"});
    EXPECT_EQ(request, nullptr);
  });
}

TEST(Requests, StaleAndForeignRequestsAreErrors) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    Ints buffer(10, rank);
    tutti_request *request = start_sum(buffer, comm), *stale = request;
    EXPECT_OK(tutti_wait(&request, nullptr));
    std::int32_t done = 0, index = 0;
    std::size_t some = 0;
    expect_error(tutti_wait(&stale, nullptr), TUTTI_ERROR_ARGUMENT, {"waited for or freed before"});
    expect_error(tutti_test(&stale, &done, nullptr), TUTTI_ERROR_ARGUMENT, {"waited for or freed before"});
    tutti_request *list[] = {nullptr, stale};
    expect_error(tutti_wait_all(2, list, nullptr), TUTTI_ERROR_ARGUMENT, {"request 1 was waited for"});
    expect_error(tutti_wait_any(2, list, &index, nullptr), TUTTI_ERROR_ARGUMENT, {"request 1 was waited for"});
    auto *junk = reinterpret_cast<tutti_request *>(&buffer);
    expect_error(tutti_wait(&junk, nullptr), TUTTI_ERROR_ARGUMENT, {"is none of this process"});
    expect_error(tutti_wait(nullptr, nullptr), TUTTI_ERROR_ARGUMENT, {"request is null"});
    expect_error(tutti_test(&request, nullptr, nullptr), TUTTI_ERROR_ARGUMENT, {"done is null"});
    expect_error(tutti_wait_all(2, nullptr, nullptr), TUTTI_ERROR_ARGUMENT, {"requests is null"});
    expect_error(tutti_wait_any(0, nullptr, nullptr, nullptr), TUTTI_ERROR_ARGUMENT, {"index is null"});
    expect_error(tutti_test_any(0, nullptr, nullptr, nullptr), TUTTI_ERROR_ARGUMENT, {"index is null"});
    expect_error(tutti_test_all(0, nullptr, nullptr, nullptr), TUTTI_ERROR_ARGUMENT, {"done is null"});
    expect_error(tutti_wait_some(1, &request, &some, nullptr, nullptr), TUTTI_ERROR_ARGUMENT, {"indices is null"});
    expect_error(tutti_test_some(1, &request, nullptr, &index, nullptr), TUTTI_ERROR_ARGUMENT, {"done is null"});
    expect_error(tutti_request_free(nullptr), TUTTI_ERROR_ARGUMENT, {"request is null"});
    expect_error(tutti_iallreduce(buffer.data(), buffer.data() + 1, 3, TUTTI_INT32, TUTTI_SUM, comm, &request),
                 TUTTI_ERROR_ARGUMENT, {"tutti_iallreduce", "overlap"});
    EXPECT_EQ(request, nullptr) << "nothing was started";
    EXPECT_EQ(sum(comm, 10), TUTTI_SUCCESS) << "and nothing is disturbed";
  });
}

TEST(Requests, AFailureEndsAllThatIsUnderWay) {
  with_ranks(3, [](int rank, tutti_comm *comm) {
    Ints first(10), second(100'000);
    tutti_request *requests[] = {nullptr, nullptr};
    requests[0] = start_sum(first, comm);
    EXPECT_OK(tutti_iallreduce(TUTTI_IN_PLACE, second.data(), rank == 2 ? 50'000 : 100'000, TUTTI_INT32, TUTTI_SUM,
                               comm, &requests[1]));
    tutti_status statuses[2];
    EXPECT_EQ(tutti_wait_all(2, requests, statuses), TUTTI_ERROR_MISMATCH) << last_error().text;
    EXPECT_EQ(statuses[1].result, TUTTI_ERROR_MISMATCH);
    EXPECT_EQ(requests[0], nullptr);
    EXPECT_EQ(requests[1], nullptr) << "with an error it is over, too";
    tutti_request *next = nullptr;
    EXPECT_EQ(tutti_ibarrier(comm, &next), TUTTI_ERROR_MISMATCH);
    EXPECT_EQ(next, nullptr);
  });
}

TEST(Requests, RequestsOfAFreedWorldAreStale) {
  tutti_request *kept[2] = {};
  {
    with_ranks(2, [&](int rank, tutti_comm *comm) {
      static Ints buffers[2] = {Ints(4), Ints(4)};
      Ints &buffer = buffers[rank];
      const tutti_call call = call_of(TUTTI_ALLREDUCE, TUTTI_IN_PLACE, buffer.data(), buffer.size());
      EXPECT_OK(tutti_call_init(&call, comm, &kept[rank]));
    });
  }
  for (tutti_request *request : kept) expect_error(tutti_start(request), TUTTI_ERROR_ARGUMENT, {"freed before"});
}

std::int64_t bytes_sent(tutti_comm *comm) {
  char json[1000];
  std::size_t bytes = sizeof(json);
  EXPECT_OK(tutti_query(comm, "statistics", json, &bytes));
  const char *at = std::strstr(json, "\"bytes_sent\":");
  return at == nullptr ? -1 : std::atoll(at + std::strlen("\"bytes_sent\":"));
}

// While nobody is inside of a call: only the thread moves what has been started.
TEST(Progress, AThreadMovesOperationsWhileTheProgramComputes) {
  with_ranks(2,
             [](int rank, tutti_comm *comm) {
               Ints buffer(1'000'000, rank + 1);
               tutti_request *request = start_sum(buffer, comm);
               // A query moves nothing. As many bytes as there are in all have to leave each rank; a start alone sends
               // what a
               // window takes.
               const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
               while (bytes_sent(comm) < 4'000'000 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
               EXPECT_GE(bytes_sent(comm), 4'000'000) << "nothing moved";
               EXPECT_OK(tutti_wait(&request, nullptr));
               EXPECT_EQ(buffer, Ints(1'000'000, 3));
               for (int i = 0; i < 1000; ++i) EXPECT_EQ(sum(comm, 10), TUTTI_SUCCESS);
             },
             {{"TUTTI_PROGRESS", "shared"}});
}

TEST(Progress, AThreadWithoutACoreIsRefused) {
  Start start;
  start.everywhere = {{"TUTTI_PROGRESS", "thread"}};
  const int many = static_cast<int>(std::thread::hardware_concurrency());
  ThreadRanks ranks(many, start);
  EXPECT_FALSE(ranks.up());
  for (int rank = 0; rank < many; ++rank) {
    EXPECT_EQ(ranks[rank].result, TUTTI_ERROR_LIMIT);
    expect_text(ranks[rank].error, {"TUTTI_PROGRESS=thread", "core", "TUTTI_PROGRESS=shared"});
  }
}

TEST(Waiting, ATimeoutNamesWhoIsMissing) {
  std::atomic<int> given_up = 0;
  with_ranks(3,
             [&](int rank, tutti_comm *comm) {
               if (rank == 2) {
                 // It comes when the others have given up, and hears of it at its second call at the latest.
                 for (int count = 0; (count = given_up) < 2;) given_up.wait(count);
                 EXPECT_EQ(error_of_calls(comm).result, TUTTI_ERROR_TIMEOUT) << last_error().text;
                 return;
               }
               Ints buffer(10);
               EXPECT_EQ(tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), 10, TUTTI_INT32, TUTTI_SUM, comm),
                         TUTTI_ERROR_TIMEOUT);
               expect_text(last_error(), {"allreduce of 10 x int32, sum", "rank 2", "TUTTI_TIMEOUT"});
               ++given_up;
               given_up.notify_all();
             },
             {{"TUTTI_TIMEOUT", "1"}});
}

// What has been captured of standard error so far.
std::string told_so_far() {
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::pread(STDERR_FILENO, text.data(), text.size(), 0))));
  return text;
}

TEST(Waiting, case_40_AfterAWhileALineNamesWhoIsMissing) {
  // Of one digit: a busy machine looks a second late, but not the ten that are the default.
  const char *told =
      "allreduce of 10 x int32, sum \\(call 1\\) has waited [1-9] s for data from rank 1; it goes on waiting";
  std::atomic<bool> sent = false;
  testing::internal::CaptureStderr();
  with_ranks(3,
             [&](int rank, tutti_comm *comm) {
               Ints buffer(10, rank);
               tutti_request *request = nullptr;
               if (rank == 0) sent.wait(false);  // so that nothing but rank 1's part is missing
               if (rank == 1)  // it comes when it has been missed; only the test's limit ends what never tells
                 while (!matches(told_so_far(), told)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
               EXPECT_OK(tutti_iallreduce(TUTTI_IN_PLACE, buffer.data(), 10, TUTTI_INT32, TUTTI_SUM, comm, &request));
               if (rank == 2) sent = true;
               sent.notify_all();
               EXPECT_OK(tutti_wait(&request, nullptr));
               EXPECT_EQ(buffer, Ints(10, 3));
             },
             {{"TUTTI_WARN_AFTER", "1"}});
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(matches(text, told)) << text;
}

}  // namespace
}  // namespace tutti::test

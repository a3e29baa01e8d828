// SPDX-License-Identifier: BSD-3-Clause
//
// Through the C interface, as programs call it: after warm-up a small call of any kind, blocking, started and waited
// for or persistent, allocates nothing, takes no lock and enters the kernel for nothing. Two ranks in one thread, so
// that nobody sleeps and every run is the same. (tests/comm has larger ones, between threads.)
#include <functional>

#include "comm/watch.h"
#include "support/thread_ranks.h"

namespace tutti::test {
namespace {

constexpr std::size_t kCount = 4;
constexpr int kTurns = 300;  // longer than windows and credits last

const char *const kNames[] = {"allreduce",      "broadcast", "barrier",    "reduce",    "reduce_scatter_block",
                              "reduce_scatter", "allgather", "allgatherv", "gather",    "gatherv",
                              "scatter",        "scatterv",  "alltoall",   "alltoallv", "scan",
                              "exscan"};

#define OK(call) ASSERT_EQ(TUTTI_SUCCESS, call) << last_error().text

class ApiSteadyState : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(watch::prepare()) << "syscall user dispatch needs Linux 5.11 or later";
    Start start;
    start.everywhere = {{"TUTTI_PIN", "off"}, {"TUTTI_SPIN_US", "1000000000"}};
    ranks_ = std::make_unique<ThreadRanks>(2, start);
    ASSERT_TRUE(ranks_->up()) << ranks_->errors();
  }
  tutti_comm *comm(int rank) { return (*ranks_)[rank].comm; }

  // A call of that collective for one rank.
  tutti_call call(int collective, int rank, tutti_type type = TUTTI_FLOAT, tutti_op op = TUTTI_SUM) {
    tutti_call call = TUTTI_INIT_STRUCT(tutti_call);
    call.collective = collective;
    call.type = type;
    call.op = op;
    call.in = input_[rank];
    call.out = output_[rank];
    call.count = kCount;
    call.in_counts = call.out_counts = counts_;
    return call;
  }
  // Until both are done. Neither waits for the other, which has no thread of its own.
  void finish(tutti_request *(&requests)[2]) {
    for (std::int32_t done[2] = {}; done[0] + done[1] < 2;)
      for (int rank = 0; rank < 2; ++rank)
        if (done[rank] == 0) {
          OK(tutti_test(&requests[rank], &done[rank], nullptr));
        }
  }
  // Receive buffers go back, as they do where ranks wait.
  void look() {
    for (int rank = 0; rank < 2; ++rank) {
      std::int32_t found = 0;
      OK(tutti_iprobe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, comm(rank), &found, nullptr));
      ASSERT_EQ(found, 0);
    }
  }
  void expect_steady(const std::function<void()> &turn, const std::string &what) {
    const auto turns = [&] {
      for (int i = 0; i < kTurns && !HasFatalFailure(); ++i) {
        turn();
        look();
      }
    };
    turns();
    watch::begin();
    turns();
    const watch::Counts counts = watch::end();
    EXPECT_EQ(counts.allocations, 0u) << what;
    EXPECT_EQ(counts.locks, 0u) << what;
    EXPECT_EQ(counts.system_calls, 0u) << what << ": the first is number " << counts.first_system_call;
  }

  std::unique_ptr<ThreadRanks> ranks_;
  double input_[2][4 * kCount] = {}, output_[2][4 * kCount] = {};
  const std::size_t counts_[2] = {kCount, kCount};
};

// The library's allocations are seen: the first call of a shape makes its plan.
TEST_F(ApiSteadyState, IsNotThatOfTheFirstCall) {
  tutti_request *requests[2] = {};
  watch::begin();
  for (int rank = 0; rank < 2; ++rank)
    OK(tutti_iallreduce(input_[rank], output_[rank], 1, TUTTI_DOUBLE, TUTTI_SUM, comm(rank), &requests[rank]));
  EXPECT_GT(watch::end().allocations, 0u);
  finish(requests);
}

TEST_F(ApiSteadyState, BlockingCalls) {
  for (int collective = 0; collective <= TUTTI_EXSCAN; ++collective) {
    const tutti_call mine = call(collective, 0), other = call(collective, 1);
    expect_steady(
        [&] {
          tutti_request *request = nullptr;
          OK(tutti_start_call(&other, comm(1), &request));
          OK(tutti_run_call(&mine, comm(0)));
          OK(tutti_wait(&request, nullptr));
        },
        kNames[collective]);
  }
}

TEST_F(ApiSteadyState, StartedCalls) {
  for (int collective = 0; collective <= TUTTI_EXSCAN; ++collective) {
    const tutti_call calls[2] = {call(collective, 0), call(collective, 1)};
    expect_steady(
        [&] {
          tutti_request *requests[2] = {};
          for (int rank = 0; rank < 2; ++rank) OK(tutti_start_call(&calls[rank], comm(rank), &requests[rank]));
          finish(requests);
        },
        kNames[collective]);
  }
}

TEST_F(ApiSteadyState, PersistentCalls) {
  for (int collective = 0; collective <= TUTTI_EXSCAN; ++collective) {
    tutti_request *requests[2] = {};
    for (int rank = 0; rank < 2; ++rank) {
      const tutti_call made = call(collective, rank);
      OK(tutti_call_init(&made, comm(rank), &requests[rank]));
    }
    expect_steady(
        [&] {
          for (tutti_request *request : requests) OK(tutti_start(request));
          finish(requests);
        },
        kNames[collective]);
    for (tutti_request *&request : requests) OK(tutti_request_free(&request));
  }
}

// What is done to elements before and after they travel, and operators that the program makes.
TEST_F(ApiSteadyState, ReductionsThatConvert) {
  const float factor = 0.5f;
  tutti_op scaled = TUTTI_OP_NULL, own = TUTTI_OP_NULL;
  OK(tutti_op_create_premul_sum(&factor, TUTTI_FLOAT, &scaled));
  const auto add = [](const void *in, void *inout, std::size_t count, void *) {
    for (std::size_t i = 0; i < count; ++i) static_cast<float *>(inout)[i] += static_cast<const float *>(in)[i];
  };
  OK(tutti_op_create(add, 1, sizeof(float), nullptr, &own));
  struct {
    const char *name;
    tutti_type type;
    tutti_op op;
  } const cases[] = {{"avg", TUTTI_FLOAT, TUTTI_AVG},
                     {"float16", TUTTI_FLOAT16, TUTTI_SUM},
                     {"bfloat16 avg", TUTTI_BFLOAT16, TUTTI_AVG},
                     {"premul_sum", TUTTI_FLOAT, scaled},
                     {"an own operator", TUTTI_FLOAT, own},
                     {"minloc", TUTTI_DOUBLE_INT, TUTTI_MINLOC}};
  for (const auto &each : cases)
    for (const int collective : {TUTTI_ALLREDUCE, TUTTI_REDUCE, TUTTI_REDUCE_SCATTER_BLOCK}) {
      const tutti_call calls[2] = {call(collective, 0, each.type, each.op), call(collective, 1, each.type, each.op)};
      expect_steady(
          [&] {
            tutti_request *requests[2] = {};
            for (int rank = 0; rank < 2; ++rank) OK(tutti_start_call(&calls[rank], comm(rank), &requests[rank]));
            finish(requests);
          },
          std::string(each.name) + ", " + kNames[collective]);
    }
  OK(tutti_op_free(&scaled));
  OK(tutti_op_free(&own));
}

// Calls of several shapes in turn, on several communicators: none of them is the last one again.
TEST_F(ApiSteadyState, CallsThatChange) {
  tutti_comm *dups[2] = {};
  ranks_->each([&](int rank, tutti_comm *world) { tutti_comm_dup(world, &dups[rank]); });
  ASSERT_TRUE(dups[0] != nullptr && dups[1] != nullptr);
  int turn = 0;
  expect_steady(
      [&] {
        ++turn;
        tutti_request *requests[2] = {};
        for (int rank = 0; rank < 2; ++rank) {
          tutti_call changing = call(turn % 3 == 0 ? TUTTI_BROADCAST : TUTTI_ALLREDUCE, rank);
          changing.count = 1 + static_cast<std::size_t>(turn % 4);
          changing.root = turn / 3 % 2;
          OK(tutti_start_call(&changing, turn % 2 == 0 ? comm(rank) : dups[rank], &requests[rank]));
        }
        finish(requests);
      },
      "calls in turn");
  ranks_->each([&](int rank, tutti_comm *) { tutti_comm_free(&dups[rank]); });
}

TEST_F(ApiSteadyState, Messages) {
  const auto both = [&](auto &&turn, const char *what) {
    expect_steady(
        [&] {
          turn(0, 1);
          turn(1, 0);
        },
        what);
  };
  both(
      [&](int from, int to) {
        OK(tutti_send(input_[from], kCount, TUTTI_DOUBLE, to, 7, comm(from)));
        OK(tutti_recv(output_[to], kCount, TUTTI_DOUBLE, from, 7, comm(to), nullptr));
      },
      "send and recv");
  both(
      [&](int from, int to) {
        tutti_request *requests[2] = {};
        OK(tutti_irecv(output_[to], kCount, TUTTI_DOUBLE, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, comm(to), &requests[0]));
        OK(tutti_isend(input_[from], kCount, TUTTI_DOUBLE, to, 7, comm(from), &requests[1]));
        finish(requests);
      },
      "irecv and isend");
  both(
      [&](int from, int to) {
        tutti_request *requests[2] = {};
        OK(tutti_issend(input_[from], kCount, TUTTI_DOUBLE, to, 7, comm(from), &requests[0]));
        OK(tutti_irecv(output_[to], kCount, TUTTI_DOUBLE, from, 7, comm(to), &requests[1]));
        finish(requests);
      },
      "issend and irecv");
  both(
      [&](int from, int to) {
        tutti_status status = {};
        OK(tutti_send(input_[from], kCount, TUTTI_DOUBLE, to, 7, comm(from)));
        OK(tutti_probe(TUTTI_ANY_SOURCE, 7, comm(to), &status));
        OK(tutti_recv(output_[to], kCount, TUTTI_DOUBLE, status.source, status.tag, comm(to), nullptr));
      },
      "probe");
  expect_steady(
      [&] {
        OK(tutti_send(input_[1], kCount, TUTTI_DOUBLE, 0, 7, comm(1)));
        OK(tutti_sendrecv(input_[0], kCount, TUTTI_DOUBLE, 1, 7, output_[0], kCount, TUTTI_DOUBLE, 1, 7, comm(0),
                          nullptr));
        OK(tutti_recv(output_[1], kCount, TUTTI_DOUBLE, 0, 7, comm(1), nullptr));
      },
      "sendrecv");
}

// Many requests at once, waited for together.
TEST_F(ApiSteadyState, ManyRequests) {
  constexpr std::size_t kMany = 8;
  expect_steady(
      [&] {
        tutti_request *requests[2][kMany] = {};
        for (std::size_t i = 0; i < kMany; ++i)
          for (int rank = 0; rank < 2; ++rank)
            OK(tutti_iallreduce(input_[rank], output_[rank], 1, TUTTI_DOUBLE, TUTTI_SUM, comm(rank),
                                &requests[rank][i]));
        std::int32_t index = -1, done[2] = {};
        while (index < 0) {
          OK(tutti_test_any(kMany, requests[0], &index, nullptr));
          if (index < 0) {
            OK(tutti_test_any(kMany, requests[1], &index, nullptr));
          }
        }
        while (done[0] + done[1] < 2)
          for (int rank = 0; rank < 2; ++rank) {
            tutti_status statuses[kMany];
            if (done[rank] == 0) {
              OK(tutti_test_all(kMany, requests[rank], &done[rank], statuses));
            }
          }
      },
      "many requests");
}

}  // namespace
}  // namespace tutti::test

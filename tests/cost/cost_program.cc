// SPDX-License-Identifier: BSD-3-Clause
//
// Two ranks in one thread, for callgrind: what is counted is one rank's whole call in the steady state, with the other
// rank's message there already, so that each count is the same in every run. tests/cost/run.py reads the counts.
//
// The names phase_NAME and counted_NAME are known there: a phase makes kTimes calls of what is counted.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "support/thread_ranks.h"

namespace {

using tutti::test::ThreadRanks;

// A multiple of what is done once in so many messages.
constexpr int kTimes = 640;

void expect(tutti_result result) {
  if (result == TUTTI_SUCCESS) return;
  std::fprintf(stderr, "cost_program: %s\n", tutti::test::last_error().text);
  std::exit(1);
}

void expect_value(std::int64_t is, std::int64_t should) {
  if (is == should) return;
  std::fprintf(stderr, "cost_program: %lld instead of %lld\n", static_cast<long long>(is),
               static_cast<long long>(should));
  std::exit(1);
}

std::int64_t mine[2];  // of each rank, in place
std::int64_t made[4];  // what calls with two buffers give

}  // namespace

extern "C" {

[[gnu::noinline]] tutti_result counted_allreduce(tutti_comm *comm) {
  return tutti_allreduce(TUTTI_IN_PLACE, &mine[1], 1, TUTTI_INT64, TUTTI_SUM, comm);
}
// The end that receives, and the root.
[[gnu::noinline]] tutti_result counted_broadcast(tutti_comm *comm) {
  return tutti_broadcast(&mine[1], 1, TUTTI_INT64, 0, comm);
}
[[gnu::noinline]] tutti_result counted_broadcast_root(tutti_comm *comm) {
  return tutti_broadcast(&mine[1], 1, TUTTI_INT64, 1, comm);
}
// The root.
[[gnu::noinline]] tutti_result counted_reduce(tutti_comm *comm) {
  return tutti_reduce(&mine[1], made, 1, TUTTI_INT64, TUTTI_SUM, 1, comm);
}
[[gnu::noinline]] tutti_result counted_allgather(tutti_comm *comm) {
  return tutti_allgather(&mine[1], made, 1, TUTTI_INT64, comm);
}
[[gnu::noinline]] tutti_result counted_barrier(tutti_comm *comm) { return tutti_barrier(comm); }
[[gnu::noinline]] tutti_result counted_send(tutti_comm *comm) {
  return tutti_send(&mine[1], 1, TUTTI_INT64, 0, 7, comm);
}
[[gnu::noinline]] tutti_result counted_recv(tutti_comm *comm) {
  return tutti_recv(&mine[1], 1, TUTTI_INT64, 0, 7, comm, nullptr);
}

}  // extern "C"

namespace {

// The other rank's part before and after a call of rank 1.
struct Case {
  tutti_result (*counted)(tutti_comm *);
  void (*before)(tutti_comm *other, int i);
  void (*after)(tutti_comm *other, tutti_comm *self, int i);
};

tutti_request *request = nullptr;

void send(tutti_comm *comm, int from) { expect(tutti_send(&mine[from], 1, TUTTI_INT64, 1 - from, 7, comm)); }
void receive(tutti_comm *comm, int to) { expect(tutti_recv(&mine[to], 1, TUTTI_INT64, 1 - to, 7, comm, nullptr)); }

const Case kAllreduce = {
    counted_allreduce,
    [](tutti_comm *other, int i) {
      mine[0] = i, mine[1] = 1000;
      expect(tutti_iallreduce(TUTTI_IN_PLACE, &mine[0], 1, TUTTI_INT64, TUTTI_SUM, other, &request));
    },
    [](tutti_comm *, tutti_comm *, int i) {
      expect(tutti_wait(&request, nullptr));
      expect_value(mine[0], i + 1000);
      expect_value(mine[1], i + 1000);
    }};
const Case kBroadcast = {counted_broadcast,
                         [](tutti_comm *other, int i) {
                           mine[0] = i;
                           expect(tutti_broadcast(&mine[0], 1, TUTTI_INT64, 0, other));
                         },
                         [](tutti_comm *, tutti_comm *, int i) { expect_value(mine[1], i); }};
const Case kBroadcastRoot = {counted_broadcast_root, [](tutti_comm *, int i) { mine[1] = i; },
                             [](tutti_comm *other, tutti_comm *, int i) {
                               expect(tutti_broadcast(&mine[0], 1, TUTTI_INT64, 1, other));
                               expect_value(mine[0], i);
                             }};
const Case kReduce = {counted_reduce,
                      [](tutti_comm *other, int i) {
                        mine[0] = i, mine[1] = 1000;
                        expect(tutti_reduce(&mine[0], nullptr, 1, TUTTI_INT64, TUTTI_SUM, 1, other));
                      },
                      [](tutti_comm *, tutti_comm *, int i) { expect_value(made[0], i + 1000); }};
const Case kAllgather = {counted_allgather,
                         [](tutti_comm *other, int i) {
                           mine[0] = i, mine[1] = 1000;
                           expect(tutti_iallgather(&mine[0], &made[2], 1, TUTTI_INT64, other, &request));
                         },
                         [](tutti_comm *, tutti_comm *, int i) {
                           expect(tutti_wait(&request, nullptr));
                           expect_value(made[0] + made[1], i + 1000);
                           expect_value(made[2] + made[3], i + 1000);
                         }};
const Case kBarrier = {counted_barrier, [](tutti_comm *other, int) { expect(tutti_ibarrier(other, &request)); },
                       [](tutti_comm *, tutti_comm *, int) { expect(tutti_wait(&request, nullptr)); }};
// Something goes the other way each time, as in a ping-pong, so that credits ride in messages.
const Case kSend = {counted_send, [](tutti_comm *, int i) { mine[1] = i; },
                    [](tutti_comm *other, tutti_comm *self, int i) {
                      receive(other, 0);
                      expect_value(mine[0], i);
                      send(other, 0);
                      receive(self, 1);
                    }};
const Case kReceive = {counted_recv,
                       [](tutti_comm *other, int i) {
                         mine[0] = i;
                         send(other, 0);
                       },
                       [](tutti_comm *other, tutti_comm *self, int i) {
                         expect_value(mine[1], i);
                         send(self, 1);
                         receive(other, 0);
                       }};

// Polls until nothing comes, as ranks do that wait: receive buffers go back then.
void look(tutti_comm *comm) {
  std::int32_t found = 0;
  expect(tutti_iprobe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, comm, &found, nullptr));
  expect_value(found, 0);
}

void run(const Case &each, tutti_comm *other, tutti_comm *self, tutti_result (*call)(tutti_comm *), int times) {
  for (int i = 0; i < times; ++i) {
    each.before(other, i);
    expect(call(self));
    each.after(other, self, i);
    look(other);
    look(self);
  }
}

void count(const Case &each, tutti_comm *other, tutti_comm *self) { run(each, other, self, each.counted, kTimes); }

// The same calls, which callgrind does not count.
tutti_result warm_allreduce(tutti_comm *comm) {
  return tutti_allreduce(TUTTI_IN_PLACE, &mine[1], 1, TUTTI_INT64, TUTTI_SUM, comm);
}
tutti_result warm_send(tutti_comm *comm) { return tutti_send(&mine[1], 1, TUTTI_INT64, 0, 7, comm); }

}  // namespace

extern "C" {

[[gnu::noinline]] void phase_allreduce(tutti_comm *other, tutti_comm *self) { count(kAllreduce, other, self); }
[[gnu::noinline]] void phase_broadcast(tutti_comm *other, tutti_comm *self) { count(kBroadcast, other, self); }
[[gnu::noinline]] void phase_broadcast_root(tutti_comm *other, tutti_comm *self) { count(kBroadcastRoot, other, self); }
[[gnu::noinline]] void phase_reduce(tutti_comm *other, tutti_comm *self) { count(kReduce, other, self); }
[[gnu::noinline]] void phase_allgather(tutti_comm *other, tutti_comm *self) { count(kAllgather, other, self); }
[[gnu::noinline]] void phase_barrier(tutti_comm *other, tutti_comm *self) { count(kBarrier, other, self); }
[[gnu::noinline]] void phase_send(tutti_comm *other, tutti_comm *self) { count(kSend, other, self); }
[[gnu::noinline]] void phase_recv(tutti_comm *other, tutti_comm *self) { count(kReceive, other, self); }

}  // extern "C"

int main() {
  tutti::test::Start start;
  start.everywhere = {{"TUTTI_PIN", "off"}};
  ThreadRanks ranks(2, start);
  if (!ranks.up()) {
    std::fprintf(stderr, "cost_program: %s\n", ranks.errors().c_str());
    return 1;
  }
  tutti_comm *other = ranks[0].comm, *self = ranks[1].comm;
  run(kAllreduce, other, self, warm_allreduce, 64);
  run(kSend, other, self, warm_send, 64);
  phase_allreduce(other, self);
  phase_broadcast(other, self);
  phase_broadcast_root(other, self);
  phase_reduce(other, self);
  phase_allgather(other, self);
  phase_barrier(other, self);
  phase_send(other, self);
  phase_recv(other, self);
  std::printf("%d\n", kTimes);
}

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
  std::fprintf(stderr, "cost_program: %lld instead of %lld\n", static_cast<long long>(is), static_cast<long long>(should));
  std::exit(1);
}

std::int64_t mine[2];  // of each rank, in place

}  // namespace

extern "C" {

[[gnu::noinline]] tutti_result counted_allreduce(tutti_comm *comm) {
  return tutti_allreduce(TUTTI_IN_PLACE, &mine[1], 1, TUTTI_INT64, TUTTI_SUM, comm);
}
[[gnu::noinline]] tutti_result counted_send(tutti_comm *comm) {
  return tutti_send(&mine[1], 1, TUTTI_INT64, 0, 7, comm);
}
[[gnu::noinline]] tutti_result counted_recv(tutti_comm *comm) {
  return tutti_recv(&mine[1], 1, TUTTI_INT64, 0, 7, comm, nullptr);
}

[[gnu::noinline]] void phase_allreduce(tutti_comm *other, tutti_comm *self) {
  for (int i = 0; i < kTimes; ++i) {
    mine[0] = i, mine[1] = 1000;
    tutti_request *request = nullptr;
    expect(tutti_iallreduce(TUTTI_IN_PLACE, &mine[0], 1, TUTTI_INT64, TUTTI_SUM, other, &request));
    expect(counted_allreduce(self));
    expect(tutti_wait(&request, nullptr));
    expect_value(mine[0], i + 1000);
    expect_value(mine[1], i + 1000);
  }
}

[[gnu::noinline]] void phase_send(tutti_comm *other, tutti_comm *self) {
  for (int i = 0; i < kTimes; ++i) {
    mine[1] = i;
    expect(counted_send(self));
    expect(tutti_recv(&mine[0], 1, TUTTI_INT64, 1, 7, other, nullptr));
    expect_value(mine[0], i);
    // Something comes back, as in a ping-pong, so that credits ride in messages.
    expect(tutti_send(&mine[0], 1, TUTTI_INT64, 1, 7, other));
    expect(tutti_recv(&mine[1], 1, TUTTI_INT64, 0, 7, self, nullptr));
  }
}

[[gnu::noinline]] void phase_recv(tutti_comm *other, tutti_comm *self) {
  for (int i = 0; i < kTimes; ++i) {
    mine[0] = i;
    expect(tutti_send(&mine[0], 1, TUTTI_INT64, 1, 7, other));
    expect(counted_recv(self));
    expect_value(mine[1], i);
    expect(tutti_send(&mine[1], 1, TUTTI_INT64, 0, 7, self));
    expect(tutti_recv(&mine[0], 1, TUTTI_INT64, 1, 7, other, nullptr));
  }
}

}  // extern "C"

int main(int argc, char **argv) {
  tutti::test::Start start;
  start.everywhere = {{"TUTTI_PIN", "off"}};
  ThreadRanks ranks(2, start);
  if (!ranks.up()) {
    std::fprintf(stderr, "cost_program: %s\n", ranks.errors().c_str());
    return 1;
  }
  const std::string which = argc > 1 ? argv[1] : "";
  const auto phase = which == "allreduce" ? phase_allreduce : which == "send" ? phase_send : phase_recv;
  phase(ranks[0].comm, ranks[1].comm);
  std::printf("%d\n", kTimes);
}

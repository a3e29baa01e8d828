// SPDX-License-Identifier: BSD-3-Clause
//
// Case 42: programs that are right only if the MPI library gets on while Tutti waits, and the other way round.
#include <vector>

#include "rank.h"

namespace tutti::test {
namespace {

// A message too large to be sent before it is asked for, under way over a collective.
int message_over_collective() {
  std::vector<char> data(10'000'000, static_cast<char>(world().rank + 1));
  MPI_Request request = MPI_REQUEST_NULL;
  int one = 1, sum = 0, failures = 0;
  if (world().rank == 0)
    MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_CHAR, 1, 3, MPI_COMM_WORLD, &request);
  if (world().rank == 1) {
    MPI_Recv(data.data(), static_cast<int>(data.size()), MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    failures += expect(data.front() == 1 && data.back() == 1, "the message is wrong");
  }
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  failures += expect(sum == world().ranks, "the sum is wrong");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return failures;
}

int barrier_over_broadcast() {
  MPI_Request request = MPI_REQUEST_NULL;
  int failures = 0;
  for (int turn = 0; turn < 100; ++turn) {
    int value = world().rank == turn % world().ranks ? turn : -1;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Bcast(&value, 1, MPI_INT, turn % world().ranks, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    failures += expect(value == turn, "the broadcast is wrong");
  }
  return failures;
}

// Rank 0 meets another rank's messages after each call, the others never.
int many_small_ones() {
  int failures = 0;
  for (int turn = 0; turn < 100'000; ++turn) {
    int value = world().rank == 0 ? turn : -1;
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (value != turn) return failures + failed("a broadcast is wrong");
    if (world().rank == world().ranks - 1 && turn % 1000 == 0) {
      int found = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    }
  }
  return failures;
}

}  // namespace

int progress() { return message_over_collective() + barrier_over_broadcast() + many_small_ones(); }

}  // namespace tutti::test

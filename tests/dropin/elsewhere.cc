// SPDX-License-Identifier: BSD-3-Clause
//
// What stays the MPI's own goes on beside Tutti: files, windows, neighbours, intercommunicators, reductions that Tutti
// does not take; threads of a program that has MPI_THREAD_MULTIPLE.
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "rank.h"

namespace tutti::test {
namespace {

int files() {
  int id = world().rank == 0 ? static_cast<int>(getpid()) : 0, failures = 0;
  MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
  const std::string name = "/tmp/dropin_file." + std::to_string(id);
  MPI_File file = MPI_FILE_NULL;
  MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                &file);
  std::vector<int> data(1000, world().rank), back(1000, -1);
  const int next = (world().rank + 1) % world().ranks;
  MPI_File_write_at_all(file, world().rank * 4000, data.data(), 1000, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_read_at_all(file, next * 4000, back.data(), 1000, MPI_INT, MPI_STATUS_IGNORE);
  failures += expect(std::ranges::count(back, next) == 1000, "a file holds something else");
  MPI_File_close(&file);
  return failures;
}

// Debian 12's MPICH loses what is put into windows, without Tutti as well: there only that nothing hangs is checked.
#if defined(OPEN_MPI)
constexpr bool kWindowsWork = true;
#else
constexpr bool kWindowsWork = false;
#endif

int windows() {
  int *value = nullptr, failures = 0;
  const int mine = world().rank, next = (mine + 1) % world().ranks;
  MPI_Win window = MPI_WIN_NULL;
  MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &value, &window);
  *value = -1;
  MPI_Win_fence(0, window);
  MPI_Put(&mine, 1, MPI_INT, next, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  failures +=
      expect(!kWindowsWork || *value == (mine + world().ranks - 1) % world().ranks, "a window holds something else");
  MPI_Barrier(MPI_COMM_WORLD);
  // The target sits in a collective of Tutti's.
  if (mine == 0) {
    for (int turn = 0; turn < 50; ++turn) {
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, world().ranks - 1, 0, window);
      MPI_Put(&turn, 1, MPI_INT, world().ranks - 1, 0, 1, MPI_INT, window);
      MPI_Win_unlock(world().ranks - 1, window);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, mine, 0, window);
  if (mine == world().ranks - 1) failures += expect(!kWindowsWork || *value == 49, "a window was not written");
  MPI_Win_unlock(mine, window);
  MPI_Win_free(&window);
  return failures;
}

int neighbours() {
  MPI_Comm ring = MPI_COMM_NULL;
  const int size = world().ranks, periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 1, &ring);
  int rank = 0, got[2] = {-1, -1}, sum = 0, failures = 0;
  MPI_Comm_rank(ring, &rank);
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, ring);
  failures += expect(got[0] == (rank + size - 1) % size && got[1] == (rank + 1) % size, "a neighbour is another");
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, ring);
  failures += expect(sum == size * (size - 1) / 2, "the ring's sum is wrong");
  MPI_Comm_free(&ring);
  return failures;
}

int intercommunicators() {
  if (world().ranks < 2) return 0;
  const int side = world().rank % 2;
  int members = 0, sum = 0, one = 1, failures = 0;
  MPI_Comm half = MPI_COMM_NULL, both = MPI_COMM_NULL, merged = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, side, world().rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 5, &both);
  MPI_Comm_remote_size(both, &members);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both);
  failures += expect(sum == members, "the sum of the other side is wrong");
  MPI_Intercomm_merge(both, side, &merged);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
  failures += expect(sum == world().ranks, "the sum of both sides is wrong");
  for (MPI_Comm *comm : {&merged, &both, &half}) MPI_Comm_free(comm);
  return failures;
}

void last_of(void *in, void *in_out, int *, MPI_Datatype *) { *static_cast<char *>(in_out) = *static_cast<char *>(in); }

// An operator on a type of more bytes than Tutti's operators take.
int large_elements() {
  MPI_Datatype large = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  MPI_Type_contiguous(5000, MPI_CHAR, &large);
  MPI_Type_commit(&large);
  MPI_Op_create(last_of, 1, &op);
  std::vector<char> in(5000, 1), out(5000, 0);
  MPI_Allreduce(in.data(), out.data(), 1, large, op, MPI_COMM_WORLD);
  MPI_Op_free(&op);
  MPI_Type_free(&large);
  return expect(out[0] == 1, "the operator was not called");
}

}  // namespace

int elsewhere() { return files() + windows() + neighbours() + intercommunicators() + large_elements(); }

// Each thread with a communicator of its own, blocking and not, and messages besides.
int threads() {
  constexpr int kThreads = 3, kTurns = 150;
  std::vector<MPI_Comm> comms(kThreads);
  std::vector<int> failures(kThreads);
  std::vector<std::thread> list;
  list.reserve(kThreads);
  for (MPI_Comm &comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int id = 0; id < kThreads; ++id)
    list.emplace_back([&, id] {
      const MPI_Comm comm = comms[static_cast<std::size_t>(id)];
      const int next = (world().rank + 1) % world().ranks, before = (world().rank + world().ranks - 1) % world().ranks;
      for (int turn = 0; turn < kTurns; ++turn) {
        int in = world().rank + turn * id, sum = 0, started = 0, got = -1;
        MPI_Request list_of[2];
        MPI_Iallreduce(&in, &started, 1, MPI_INT, MPI_SUM, comm, &list_of[0]);
        MPI_Irecv(&got, 1, MPI_INT, before, turn, comm, &list_of[1]);
        MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, comm);
        MPI_Send(&turn, 1, MPI_INT, next, turn, comm);
        MPI_Waitall(2, list_of, MPI_STATUSES_IGNORE);
        const int expected = world().ranks * (world().ranks - 1) / 2 + world().ranks * turn * id;
        failures[static_cast<std::size_t>(id)] +=
            expect(sum == expected && started == expected && got == turn, "a thread's results are wrong");
      }
    });
  for (std::thread &thread : list) thread.join();
  for (MPI_Comm &comm : comms) MPI_Comm_free(&comm);
  return failures[0] + failures[1] + failures[2];
}

}  // namespace tutti::test

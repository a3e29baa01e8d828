// SPDX-License-Identifier: BSD-3-Clause
//
// Requests of Tutti's among the MPI's own, in every function that waits or tests; calls that block in the MPI while
// collectives of Tutti are under way; what the program frees before its calls have ended; persistent collectives.
#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "rank.h"

namespace tutti::test {
namespace {

int right_of(int rank) { return (rank + 1) % world().ranks; }
int left_of(int rank) { return (rank + world().ranks - 1) % world().ranks; }
int sum_of_ranks() { return world().ranks * (world().ranks - 1) / 2; }

// Waits for all of them, in one way or another.
using WaitAll = std::function<int(std::vector<MPI_Request> &)>;

int with_waitany(std::vector<MPI_Request> &list) {
  const int count = static_cast<int>(list.size());
  for (std::size_t i = 0; i <= list.size(); ++i) {
    int index = -7;
    MPI_Status status;
    if (MPI_Waitany(count, list.data(), &index, &status) != MPI_SUCCESS) return 1;
    if ((index == MPI_UNDEFINED) != (i == list.size())) return 1;
  }
  return 0;
}
int with_waitsome(std::vector<MPI_Request> &list) {
  const int count = static_cast<int>(list.size());
  std::vector<int> indices(list.size());
  std::vector<MPI_Status> statuses(list.size());
  for (int all = 0, done = 0;; all += done) {
    if (MPI_Waitsome(count, list.data(), &done, indices.data(), statuses.data()) != MPI_SUCCESS) return 1;
    if (done == MPI_UNDEFINED) return all == count ? 0 : 1;
    if (done == 0) return 1;
  }
}
int with_testall(std::vector<MPI_Request> &list) {
  for (int done = 0; done == 0;)
    if (MPI_Testall(static_cast<int>(list.size()), list.data(), &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return 1;
  return 0;
}
int with_testany(std::vector<MPI_Request> &list) {
  for (int index = 0, done = 0;;) {
    if (MPI_Testany(static_cast<int>(list.size()), list.data(), &index, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
      return 1;
    if (done != 0 && index == MPI_UNDEFINED) return 0;
  }
}
int with_testsome(std::vector<MPI_Request> &list) {
  std::vector<int> indices(list.size());
  for (int done = 0; done != MPI_UNDEFINED;)
    if (MPI_Testsome(static_cast<int>(list.size()), list.data(), &done, indices.data(), MPI_STATUSES_IGNORE) !=
        MPI_SUCCESS)
      return 1;
  return 0;
}
int one_by_one(std::vector<MPI_Request> &list) {
  for (MPI_Request &request : list) {
    int done = 0;
    if (&request - list.data() == 2)  // asks before it takes
      while (done == 0) MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
    MPI_Status status;
    if (MPI_Wait(&request, &status) != MPI_SUCCESS || request != MPI_REQUEST_NULL) return 1;
  }
  return 0;
}

int mixed(const WaitAll &wait_all, const char *name) {
  constexpr int kCount = 50'000;
  const int rank = world().rank;
  std::vector<int> sum(kCount, rank), got(kCount), sent(kCount, rank), shared(kCount, rank == 1 ? 77 : 0);
  std::vector<int> gathered(static_cast<std::size_t>(world().ranks));
  std::vector<MPI_Request> list;
  MPI_Irecv(got.data(), kCount, MPI_INT, left_of(rank), 4, MPI_COMM_WORLD, &list.emplace_back());
  MPI_Iallreduce(MPI_IN_PLACE, sum.data(), kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &list.emplace_back());
  MPI_Ibcast(shared.data(), kCount, MPI_INT, 1 % world().ranks, MPI_COMM_WORLD, &list.emplace_back());
  MPI_Isend(sent.data(), kCount, MPI_INT, right_of(rank), 4, MPI_COMM_WORLD, &list.emplace_back());
  MPI_Ibarrier(MPI_COMM_WORLD, &list.emplace_back());
  MPI_Iallgather(&rank, 1, MPI_INT, gathered.data(), 1, MPI_INT, MPI_COMM_WORLD, &list.emplace_back());
  std::rotate(list.begin(), list.begin() + rank % 6, list.end());  // each rank in an order of its own
  const std::string text = name;
  int failures = expect(wait_all(list) == 0, text + ": it failed");
  failures += expect(std::ranges::count(list, MPI_REQUEST_NULL) == 6, text + ": a request is left");
  failures += expect(std::ranges::count(sum, sum_of_ranks()) == kCount, text + ": the sum is wrong");
  failures += expect(std::ranges::count(got, left_of(rank)) == kCount, text + ": the message is wrong");
  failures +=
      expect(std::ranges::count(shared, world().ranks == 1 ? shared[0] : 77) == kCount, text + ": the broadcast");
  for (int i = 0; i < world().ranks; ++i)
    failures += expect(gathered[static_cast<std::size_t>(i)] == i, text + ": what was gathered is wrong");
  return failures;
}

// Rank 0 blocks in the MPI with a collective under way, whose end rank 1 waits for before it does its part.
int blocked(const char *name, const std::function<void(int)> &meet) {
  constexpr int kCount = 300'000;
  std::vector<int> sum(kCount, 1);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, sum.data(), kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (world().rank == 0) meet(0);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (world().rank != 0) meet(world().rank);
  return expect(std::ranges::count(sum, world().ranks) == kCount, std::string(name) + ": the sum is wrong");
}

int blocked_in_all() {
  int failures = 0, value = 5;
  MPI_Status status;
  const auto send = [&] { MPI_Send(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD); };
  failures += blocked("Recv", [&](int rank) {
    if (rank == 0) MPI_Recv(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, &status);
    else if (rank == 1) send();
  });
  failures += blocked("Ssend", [&](int rank) {
    if (rank == 0) MPI_Ssend(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD);
    else if (rank == 1) MPI_Recv(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  });
  failures += blocked("Probe", [&](int rank) {
    if (rank == 0) {
      MPI_Probe(1, 6, MPI_COMM_WORLD, &status);
      failures += expect(status.MPI_SOURCE == 1 && status.MPI_TAG == 6, "Probe tells another message");
      MPI_Recv(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, &status);
    } else if (rank == 1) {
      send();
    }
  });
  failures += blocked("Mprobe", [&](int rank) {
    MPI_Message message = MPI_MESSAGE_NULL;
    if (rank == 0) {
      MPI_Mprobe(1, 6, MPI_COMM_WORLD, &message, &status);
      MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
    } else if (rank == 1) {
      send();
    }
  });
  failures += blocked("Sendrecv", [&](int rank) {
    if (rank < 2)
      MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, 7, &value, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, &status);
    if (rank < 2) failures += expect(value == 1 - rank, "Sendrecv got another message");
  });
  failures += blocked("Comm_dup", [&](int) {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_free(&copy);
  });
  failures += blocked("Bcast that is passed on", [&](int rank) {
    // Under MPI_COMM_SELF's name nobody waits; a communicator that Tutti has not is made by its members alone.
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 8, &made);
    int number = rank == 0 ? 9 : 0;
    MPI_Bcast(&number, 1, MPI_INT, 0, made);
    failures += expect(number == 9, "a broadcast that is passed on is wrong");
    MPI_Comm_free(&made);
    MPI_Group_free(&group);
  });
  MPI_Win window = MPI_WIN_NULL;
  MPI_Win_create(&value, sizeof(value), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  failures += blocked("Win_fence", [&](int) { MPI_Win_fence(0, window); });
  MPI_Win_free(&window);
  return failures;
}

void add(void *in, void *in_out, int *count, MPI_Datatype *type) {
  MPI_Aint lb = 0, extent = 0;
  MPI_Type_get_extent(*type, &lb, &extent);
  for (int i = 0; i < *count; ++i)
    *reinterpret_cast<int *>(static_cast<char *>(in_out) + i * extent) +=
        *reinterpret_cast<int *>(static_cast<char *>(in) + i * extent);
}

int freed_early() {
  int failures = 0;
  for (int turn = 0; turn < 20; ++turn) {
    MPI_Datatype every_other = MPI_DATATYPE_NULL, gap = MPI_DATATYPE_NULL;
    MPI_Type_vector(100, 1, 2, MPI_INT, &every_other);
    MPI_Type_create_resized(MPI_INT, 0, 8, &gap);
    MPI_Type_commit(&every_other);
    MPI_Type_commit(&gap);
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(add, 1, &op);
    std::vector<int> shared(200, world().rank == 0 ? 3 : 0), sum(200, 1);
    MPI_Request list[2];
    MPI_Ibcast(shared.data(), 1, every_other, 0, MPI_COMM_WORLD, &list[0]);
    MPI_Iallreduce(MPI_IN_PLACE, sum.data(), 100, gap, op, MPI_COMM_WORLD, &list[1]);
    MPI_Type_free(&every_other);
    MPI_Type_free(&gap);
    MPI_Op_free(&op);
    failures +=
        expect(every_other == MPI_DATATYPE_NULL && gap == MPI_DATATYPE_NULL && op == MPI_OP_NULL, "a handle is left");
    // Others of the same kind meanwhile, which may get the same handles.
    MPI_Type_vector(7, 3, 9, MPI_DOUBLE, &every_other);
    MPI_Type_free(&every_other);
    MPI_Waitall(2, list, MPI_STATUSES_IGNORE);
    for (std::size_t i = 0; i < 199; ++i) {
      const bool even = i % 2 == 0;
      failures += expect(sum[i] == (even ? world().ranks : 1), "the sum is wrong");
      failures += expect(shared[i] == (even || world().rank == 0 ? 3 : 0), "the broadcast is wrong");
    }
  }
  return failures;
}

#if defined(OPEN_MPI)
#define TUTTI_INIT(Name) MPIX_##Name##_init
#else
#define TUTTI_INIT(Name) MPI_##Name##_init
#endif

int persistent() {
  int failures = 0, sum = 0, in = 0, shared = 0, got = 0;
  MPI_Request list[4];
  TUTTI_INIT(Allreduce)(&in, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &list[0]);
  TUTTI_INIT(Bcast)(&shared, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &list[1]);
  TUTTI_INIT(Barrier)(MPI_COMM_WORLD, MPI_INFO_NULL, &list[2]);
  MPI_Recv_init(&got, 1, MPI_INT, left_of(world().rank), 5, MPI_COMM_WORLD, &list[3]);
  for (int turn = 0; turn < 50; ++turn) {
    in = world().rank + turn;
    shared = world().rank == 0 ? turn : -1;
    if (turn % 2 == 0) MPI_Startall(4, list);
    else
      for (MPI_Request &request : list) MPI_Start(&request);
    MPI_Send(&turn, 1, MPI_INT, right_of(world().rank), 5, MPI_COMM_WORLD);
    if (turn % 3 == 0) {
      MPI_Waitall(4, list, MPI_STATUSES_IGNORE);
    } else {
      for (int i = 3; i >= 0; --i) MPI_Wait(&list[i], MPI_STATUS_IGNORE);
    }
    failures += expect(sum == sum_of_ranks() + turn * world().ranks, "the sum is wrong");
    failures += expect(shared == turn && got == turn, "broadcast or message are wrong");
    failures += expect(list[0] != MPI_REQUEST_NULL && list[2] != MPI_REQUEST_NULL, "a persistent request is gone");
    int done = 0;
    MPI_Test(&list[0], &done, MPI_STATUS_IGNORE);
    failures += expect(done == 1, "an inactive request is not done");
  }
  for (MPI_Request &request : list) MPI_Request_free(&request);
  failures += expect(list[0] == MPI_REQUEST_NULL, "a persistent request is not freed");
  return failures;
}

// Freed while active: it still goes to its end, with those that are waited for.
int let_go() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  MPI_Request_free(&request);
  int one = 1, sum = 0;
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return expect(sum == world().ranks, "the sum after a request that was let go is wrong");
}

}  // namespace

int mixing() {
  int failures = 0;
  for (int turn = 0; turn < 3; ++turn) {
    failures +=
        mixed([](auto &list) { return MPI_Waitall(static_cast<int>(list.size()), list.data(), MPI_STATUSES_IGNORE); },
              "Waitall");
    failures += mixed(with_waitany, "Waitany");
    failures += mixed(with_waitsome, "Waitsome");
    failures += mixed(with_testall, "Testall");
    failures += mixed(with_testany, "Testany");
    failures += mixed(with_testsome, "Testsome");
    failures += mixed(one_by_one, "Wait");
  }
  if (world().ranks > 1) failures += blocked_in_all();
  return failures + freed_early() + persistent() + let_go();
}

}  // namespace tutti::test

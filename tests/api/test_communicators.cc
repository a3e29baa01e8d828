// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators of some of the world's ranks: who is in them, that they do not disturb each other, and what is refused.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <fstream>

#include "api/expect.h"

namespace tutti::test {
namespace {

std::int32_t rank_in(tutti_comm *comm) {
  std::int32_t rank = -9;
  EXPECT_OK(tutti_comm_rank(comm, &rank));
  return rank;
}
std::int32_t size_of(tutti_comm *comm) {
  std::int32_t size = -9;
  EXPECT_OK(tutti_comm_size(comm, &size));
  return size;
}

// The world's ranks of its members, in their order.
Ints members(tutti_comm *comm, int world_rank) {
  Ints all(static_cast<std::size_t>(size_of(comm)));
  const std::int32_t mine = world_rank;
  EXPECT_OK(tutti_allgather(&mine, all.data(), 1, TUTTI_INT32, comm));
  return all;
}

TEST(Communicators, SplitGroupsByColourAndOrdersByKey) {
  with_ranks(7, [](int rank, tutti_comm *world) {
    tutti_comm *half = nullptr;
    EXPECT_OK(tutti_comm_split(world, rank % 2, -rank, &half));
    EXPECT_EQ(members(half, rank), rank % 2 == 0 ? (Ints{6, 4, 2, 0}) : (Ints{5, 3, 1}));
    EXPECT_EQ(rank_in(half), rank % 2 == 0 ? (6 - rank) / 2 : (5 - rank) / 2);
    // Of a part, again, with equal keys: by rank.
    tutti_comm *part = nullptr;
    EXPECT_OK(tutti_comm_split(half, rank < 3 ? 1 : TUTTI_UNDEFINED, 0, &part));
    EXPECT_EQ(part != nullptr, rank < 3);
    if (part != nullptr) {
      EXPECT_EQ(members(part, rank), rank % 2 == 0 ? (Ints{2, 0}) : (Ints{1}));
      EXPECT_OK(tutti_comm_free(&part));
      EXPECT_EQ(part, nullptr);
    }
    EXPECT_OK(tutti_comm_free(&half));
    EXPECT_EQ(members(world, rank), (Ints{0, 1, 2, 3, 4, 5, 6}));
  });
}

TEST(Communicators, CreateTakesTheListedRanksInTheirOrder) {
  with_ranks(5, [](int rank, tutti_comm *world) {
    const Ints ranks = {3, 0, 4};
    tutti_comm *some = nullptr;
    EXPECT_OK(tutti_comm_create(world, ranks.size(), ranks.data(), &some));
    EXPECT_EQ(some != nullptr, rank == 0 || rank == 3 || rank == 4);
    if (some != nullptr) {
      EXPECT_EQ(members(some, rank), ranks);
      const Ints all = {0, 1, 2, 3, 4}, back = {0, 1, 2};
      Ints translated(5);
      EXPECT_OK(tutti_comm_translate(world, 5, all.data(), some, translated.data()));
      EXPECT_EQ(translated, (Ints{1, TUTTI_UNDEFINED, TUTTI_UNDEFINED, 0, 2}));
      EXPECT_OK(tutti_comm_translate(some, 3, back.data(), world, translated.data()));
      EXPECT_EQ((Ints{translated[0], translated[1], translated[2]}), ranks);
      EXPECT_OK(tutti_comm_free(&some));
    }
    tutti_comm *none = nullptr;
    EXPECT_OK(tutti_comm_create(world, 0, nullptr, &none));
    EXPECT_EQ(none, nullptr);
  });
}

// All collectives with a root, in a communicator whose ranks are not the world's.
TEST(Communicators, RanksInCallsAreThoseOfTheCommunicator) {
  with_ranks(5, [](int rank, tutti_comm *world) {
    tutti_comm *some = nullptr;
    EXPECT_OK(tutti_comm_split(world, rank == 1 ? TUTTI_UNDEFINED : 0, -rank, &some));
    if (some == nullptr) return;
    // Members 4, 3, 2, 0 of the world are ranks 0, 1, 2, 3.
    const std::int32_t mine = rank_in(some);
    Ints buffer(2000, mine == 2 ? 77 : 0);
    EXPECT_OK(tutti_broadcast(buffer.data(), buffer.size(), TUTTI_INT32, 2, some));
    EXPECT_EQ(buffer, Ints(2000, 77));
    Ints all(4), one(1, rank);
    EXPECT_OK(tutti_gather(one.data(), all.data(), 1, TUTTI_INT32, 3, some));
    if (mine == 3) {
      EXPECT_EQ(all, (Ints{4, 3, 2, 0}));
    }
    std::int32_t before = -5;
    EXPECT_OK(tutti_exscan(&mine, &before, 1, TUTTI_INT32, TUTTI_SUM, some));
    EXPECT_EQ(before, (Ints{-5, 0, 1, 3})[static_cast<std::size_t>(mine)]);
    for (const std::size_t count : {1u, 5000u, 300'000u}) {
      Ints sums(count, rank);
      EXPECT_OK(tutti_allreduce(TUTTI_IN_PLACE, sums.data(), count, TUTTI_INT32, TUTTI_SUM, some));
      EXPECT_EQ(sums, Ints(count, 9));
    }
    expect_error(tutti_broadcast(buffer.data(), 1, TUTTI_INT32, 4, some), TUTTI_ERROR_ARGUMENT, {"ranks are 0 to 3"});
  });
}

TEST(Communicators, OperationsOfManyAtOnceDoNotMix) {
  with_ranks(4, [](int rank, tutti_comm *world) {
    constexpr std::size_t kComms = 40;
    std::vector<tutti_comm *> comms(kComms);
    for (tutti_comm *&comm : comms) EXPECT_OK(tutti_comm_dup(world, &comm));
    std::vector<Ints> buffers;
    std::vector<tutti_request *> requests(kComms);
    for (std::size_t i = 0; i < kComms; ++i) buffers.emplace_back(20'000, static_cast<std::int32_t>(i) + rank);
    // Started in different orders: they are independent of each other.
    for (std::size_t step = 0; step < kComms; ++step) {
      const std::size_t i = rank % 2 == 0 ? step : kComms - 1 - step;
      EXPECT_OK(tutti_iallreduce(TUTTI_IN_PLACE, buffers[i].data(), buffers[i].size(), TUTTI_INT32, TUTTI_SUM, comms[i],
                                 &requests[i]));
    }
    EXPECT_OK(tutti_wait_all(kComms, requests.data(), nullptr));
    for (std::size_t i = 0; i < kComms; ++i)
      EXPECT_EQ(buffers[i], Ints(20'000, 6 + 4 * static_cast<std::int32_t>(i))) << i;
    for (tutti_comm *&comm : comms) EXPECT_OK(tutti_comm_free(&comm));
  });
}

std::size_t resident_kib() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
}

TEST(Communicators, ThousandsLiveAtOnce) {
  with_ranks(2, [](int rank, tutti_comm *world) {
    constexpr std::size_t kComms = 3000;
    std::vector<tutti_comm *> comms(kComms);
    for (tutti_comm *&comm : comms) EXPECT_OK(tutti_comm_dup(world, &comm));
    for (std::size_t i = 0; i < kComms; ++i) {
      std::int32_t value = rank + static_cast<std::int32_t>(i);
      EXPECT_OK(tutti_allreduce(TUTTI_IN_PLACE, &value, 1, TUTTI_INT32, TUTTI_SUM, comms[i]));
      ASSERT_EQ(value, 1 + 2 * static_cast<std::int32_t>(i));
    }
    // Not freed: they go with the world.
  });
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kCycles = 2'000;  // ten times as slow, and memory is not that of the library alone
constexpr std::size_t kSpareKib = SIZE_MAX / 2;
#else
constexpr int kCycles = 100'000;
constexpr std::size_t kSpareKib = 2048;
#endif

// Deaths are tests/mp/test_survival.cc's.
TEST(Communicators, ShrinkWithoutDeathsGivesTheSameRanks) {
  with_ranks(5, [](int rank, tutti_comm *world) {
    tutti_comm *some = nullptr, *shrunk = nullptr, *again = nullptr;
    // Numbers that are free differ: ranks agree on one all the same.
    EXPECT_OK(tutti_comm_split(world, rank < 2 ? 0 : TUTTI_UNDEFINED, 0, &some));
    EXPECT_OK(tutti_comm_shrink(world, &shrunk));
    EXPECT_EQ(members(shrunk, rank), (Ints{0, 1, 2, 3, 4}));
    EXPECT_OK(tutti_comm_shrink(shrunk, &again));
    EXPECT_EQ(members(again, rank), (Ints{0, 1, 2, 3, 4}));
    std::size_t dead = 99;
    EXPECT_OK(tutti_comm_failed(again, &dead, nullptr));
    EXPECT_EQ(dead, 0u);
    EXPECT_OK(tutti_comm_free(&again));
    EXPECT_OK(tutti_comm_free(&shrunk));
    if (some != nullptr) {
      EXPECT_EQ(members(some, rank), (Ints{0, 1}));
    }
  });
}

// Ranks that made different calls go on with a communicator on which they may make equal ones.
TEST(Communicators, ShrinkAfterAMismatchGivesAllOfThem) {
  with_ranks(3, [](int rank, tutti_comm *world) {
    tutti_comm *copy = nullptr, *shrunk = nullptr;
    EXPECT_OK(tutti_comm_dup(world, &copy));
    EXPECT_EQ(sum(copy, rank == 1 ? 100 : 200), TUTTI_ERROR_MISMATCH);
    EXPECT_OK(tutti_comm_shrink(copy, &shrunk));
    EXPECT_EQ(members(shrunk, rank), (Ints{0, 1, 2}));
    EXPECT_OK(tutti_comm_free(&copy));
    EXPECT_OK(tutti_comm_free(&shrunk));
    EXPECT_EQ(members(world, rank), (Ints{0, 1, 2}));
  });
}

TEST(Communicators, ShrinkOfOneRankAndWithoutArguments) {
  with_ranks(1, [](int, tutti_comm *world) {
    tutti_comm *shrunk = nullptr;
    EXPECT_OK(tutti_comm_shrink(world, &shrunk));
    EXPECT_EQ(size_of(shrunk), 1);
    EXPECT_OK(tutti_comm_free(&shrunk));
    EXPECT_EQ(tutti_comm_shrink(world, nullptr), TUTTI_ERROR_ARGUMENT);
    EXPECT_EQ(tutti_comm_shrink(nullptr, &shrunk), TUTTI_ERROR_COMM);
    EXPECT_EQ(tutti_comm_failed(world, nullptr, nullptr), TUTTI_ERROR_ARGUMENT);
    std::size_t count = 0;
    EXPECT_EQ(tutti_comm_failed(nullptr, &count, nullptr), TUTTI_ERROR_COMM);
  });
}

// 100,000 times: numbers are used again, and nothing grows.
TEST(Communicators, MakingAndFreeingLeavesMemoryFlat) {
  std::size_t early = 0, late = 0;
  with_ranks(2, [&](int rank, tutti_comm *world) {
    for (int cycle = 0; cycle < kCycles; ++cycle) {
      if (cycle == kCycles / 10 && rank == 0) early = resident_kib();
      tutti_comm *comm = nullptr;
      ASSERT_EQ(tutti_comm_split(world, 0, 0, &comm), TUTTI_SUCCESS) << last_error().text;
      if (cycle % 100 == 0) {
        ASSERT_EQ(sum(comm, 100), TUTTI_SUCCESS) << last_error().text;
      }
      ASSERT_EQ(tutti_comm_free(&comm), TUTTI_SUCCESS) << last_error().text;
    }
    if (rank == 0) late = resident_kib();
  });
  EXPECT_LE(late, early + kSpareKib) << "KiB resident after a tenth of the cycles and after all";
}

// A rank that is through with making one may use it before another is through.
TEST(Communicators, AFastRankMayUseItBeforeASlowOneHasIt) {
  with_ranks(4, [](int rank, tutti_comm *world) {
    for (int cycle = 0; cycle < 300; ++cycle) {
      tutti_comm *comm = nullptr;
      EXPECT_OK(tutti_comm_dup(world, &comm));
      std::int32_t value = rank == cycle % 4 ? cycle : -1;
      EXPECT_OK(tutti_broadcast(&value, 1, TUTTI_INT32, cycle % 4, comm));
      ASSERT_EQ(value, cycle);
      EXPECT_OK(tutti_comm_free(&comm));
    }
  });
}

// Two threads a rank, each with a communicator of its own: neither waits for the other's.
TEST(Communicators, ThreadsWithCommunicatorsOfTheirOwn) {
  with_ranks(
      3,
      [](int rank, tutti_comm *world) {
        tutti_comm *comms[2] = {};
        for (tutti_comm *&comm : comms) EXPECT_OK(tutti_comm_dup(world, &comm));
        std::thread threads[2];
        for (int t = 0; t < 2; ++t)
          threads[t] = std::thread([&, t] {
            for (int call = 0; call < 300; ++call) {
              // Ranks take turns in being late in one of them.
              if (call % 50 == 0 && (rank + t) % 3 == call / 50 % 3)
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
              Ints buffer(call % 10 == 0 ? 50'000 : 10, rank + t);
              EXPECT_OK(
                  tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), buffer.size(), TUTTI_INT32, TUTTI_SUM, comms[t]));
              ASSERT_EQ(buffer, Ints(buffer.size(), 3 + 3 * t));
            }
          });
        for (std::thread &thread : threads) thread.join();
        for (tutti_comm *&comm : comms) EXPECT_OK(tutti_comm_free(&comm));
      },
      {}, true);
}

TEST(Communicators, MistakesAreErrors) {
  std::atomic<bool> refused = false;
  with_ranks(3, [&](int rank, tutti_comm *world) {
    tutti_comm *comm = nullptr;
    const Ints twice = {0, 0}, beyond = {0, 3};
    Ints out(2);
    expect_error(tutti_comm_split(world, -7, 0, &comm), TUTTI_ERROR_ARGUMENT, {"colour -7"});
    expect_error(tutti_comm_split(world, 0, 0, nullptr), TUTTI_ERROR_ARGUMENT, {"made is null"});
    expect_error(tutti_comm_split(nullptr, 0, 0, &comm), TUTTI_ERROR_COMM, {"tutti_comm_split"});
    expect_error(tutti_comm_create(world, 2, twice.data(), &comm), TUTTI_ERROR_ARGUMENT, {"rank 0 is listed twice"});
    expect_error(tutti_comm_create(world, 2, beyond.data(), &comm), TUTTI_ERROR_ARGUMENT, {"rank 3 does not exist"});
    expect_error(tutti_comm_create(world, 2, nullptr, &comm), TUTTI_ERROR_ARGUMENT, {"ranks is null"});
    expect_error(tutti_comm_translate(world, 2, beyond.data(), world, out.data()), TUTTI_ERROR_ARGUMENT,
                 {"rank 3 does not exist"});
    expect_error(tutti_comm_translate(world, 2, twice.data(), world, nullptr), TUTTI_ERROR_ARGUMENT,
                 {"translated is null"});
    EXPECT_OK(tutti_comm_dup(world, &comm));
    tutti_comm *stale = comm;
    Ints buffer(10, rank);
    tutti_request *request = nullptr;
    if (rank != 0) refused.wait(false);  // it cannot be done there before these have begun
    EXPECT_OK(tutti_iallreduce(TUTTI_IN_PLACE, buffer.data(), 10, TUTTI_INT32, TUTTI_SUM, comm, &request));
    if (rank == 0) {
      EXPECT_EQ(tutti_comm_free(&comm), TUTTI_ERROR_STATE);
      expect_text(last_error(), {"under way"});
      EXPECT_NE(comm, nullptr);
      refused = true;
      refused.notify_all();
    }
    EXPECT_OK(tutti_wait(&request, nullptr));
    EXPECT_OK(tutti_comm_free(&comm));
    expect_error(tutti_comm_size(stale, &out[0]), TUTTI_ERROR_COMM, {"freed"});
    expect_error(tutti_barrier(stale), TUTTI_ERROR_COMM, {"freed"});
  });
}

// Frees it as soon as all that was started on it is done, which nobody has asked for yet.
void free_when_done(tutti_comm *comm, tutti_comm *world) {
  tutti_result freed = TUTTI_ERROR_STATE;
  while ((freed = tutti_comm_free(&comm)) == TUTTI_ERROR_STATE) {
    std::int32_t found = 0;
    ASSERT_EQ(tutti_iprobe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, world, &found, nullptr), TUTTI_SUCCESS);
  }
  EXPECT_EQ(freed, TUTTI_SUCCESS) << last_error().text;
}

TEST(Communicators, RequestsOutliveTheirs) {
  with_ranks(3, [](int rank, tutti_comm *world) {
    tutti_comm *comm = nullptr;
    EXPECT_OK(tutti_comm_dup(world, &comm));
    Ints sums(10, rank), again(10, rank), received(10, -1);
    const Ints sent(10, rank);
    std::array<tutti_request *, 4> requests{};
    EXPECT_OK(tutti_iallreduce(TUTTI_IN_PLACE, sums.data(), 10, TUTTI_INT32, TUTTI_SUM, comm, &requests[0]));
    EXPECT_OK(tutti_irecv(received.data(), 10, TUTTI_INT32, (rank + 2) % 3, 7, comm, &requests[1]));
    EXPECT_OK(tutti_isend(sent.data(), 10, TUTTI_INT32, (rank + 1) % 3, 7, comm, &requests[2]));
    const tutti_call call = call_of(TUTTI_ALLREDUCE, TUTTI_IN_PLACE, again.data(), 10);
    EXPECT_OK(tutti_call_init(&call, comm, &requests[3]));
    EXPECT_OK(tutti_start(requests[3]));
    free_when_done(comm, world);
    tutti_request *const persistent = requests[3];
    std::array<tutti_status, 4> statuses{};
    EXPECT_OK(tutti_wait_all(4, requests.data(), statuses.data()));
    EXPECT_EQ(sums, Ints(10, 3));
    EXPECT_EQ(again, Ints(10, 3));
    EXPECT_EQ(received, Ints(10, (rank + 2) % 3));
    EXPECT_EQ(statuses[1].source, (rank + 2) % 3);
    EXPECT_EQ(requests[0], nullptr);
    EXPECT_EQ(requests[3], persistent);
    expect_error(tutti_start(requests[3]), TUTTI_ERROR_COMM, {"freed"});
    EXPECT_OK(tutti_request_free(&requests[3]));
  });
}

TEST(Communicators, RequestsOfAFailedOneKeepItsError) {
  std::barrier all_started(3);
  with_ranks(3, [&](int rank, tutti_comm *world) {
    tutti_comm *comm = nullptr;
    EXPECT_OK(tutti_comm_dup(world, &comm));
    Ints buffer(20, rank), never(20, rank);
    std::array<tutti_request *, 2> requests{};
    const std::size_t count = rank == 0 ? 10 : 20;
    EXPECT_OK(tutti_iallreduce(TUTTI_IN_PLACE, never.data(), 20, TUTTI_INT32, TUTTI_SUM, comm, requests.data()));
    EXPECT_OK(tutti_wait(requests.data(), nullptr));
    EXPECT_OK(tutti_ibroadcast(never.data(), 20, TUTTI_INT32, 0, comm, requests.data()));
    all_started.arrive_and_wait();  // none can be started once somebody has told of the mismatch
    tutti_result result = tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), count, TUTTI_INT32, TUTTI_SUM, comm);
    for (int call = 0; result == TUTTI_SUCCESS && call < 100'000; ++call) result = sum(comm, 10);
    EXPECT_EQ(result, TUTTI_ERROR_MISMATCH);
    EXPECT_OK(tutti_comm_free(&comm));
    const tutti_result ended = tutti_wait(requests.data(), nullptr);
    EXPECT_TRUE(ended == TUTTI_SUCCESS || ended == TUTTI_ERROR_MISMATCH) << "done before, or with it";
    EXPECT_EQ(requests[0], nullptr);
  });
}

TEST(Communicators, AListThatDiffersIsAnErrorOnAllRanks) {
  with_ranks(3, [](int rank, tutti_comm *world) {
    const Ints two = {0, 1}, three = {0, 1, 2};
    const Ints &ranks = rank == 1 ? three : two;
    tutti_comm *comm = nullptr;
    expect_error(tutti_comm_create(world, ranks.size(), ranks.data(), &comm), TUTTI_ERROR_MISMATCH,
                 {"makes another communicator"});
    EXPECT_EQ(comm, nullptr);
    EXPECT_EQ(sum(world, 10), TUTTI_SUCCESS) << "the world goes on";
  });
}

// A mistake on one communicator is that one's alone.
TEST(Communicators, AFailedOneLeavesTheOthersAlone) {
  with_ranks(3, [](int rank, tutti_comm *world) {
    tutti_comm *bad = nullptr, *good = nullptr;
    EXPECT_OK(tutti_comm_dup(world, &bad));
    EXPECT_OK(tutti_comm_dup(world, &good));
    Ints buffer(20, rank);
    tutti_result result =
        tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), rank == 0 ? 10 : 20, TUTTI_INT32, TUTTI_SUM, bad);
    for (int call = 0; result == TUTTI_SUCCESS && call < 100'000; ++call) result = sum(bad, 10);
    EXPECT_EQ(result, TUTTI_ERROR_MISMATCH);
    EXPECT_EQ(sum(good, 1000), TUTTI_SUCCESS) << last_error().text;
    EXPECT_OK(tutti_comm_free(&bad));
    tutti_comm *next = nullptr;
    EXPECT_OK(tutti_comm_dup(world, &next));
    EXPECT_EQ(sum(next, 1000), TUTTI_SUCCESS) << last_error().text;
    EXPECT_OK(tutti_comm_free(&next));
    EXPECT_OK(tutti_comm_free(&good));
  });
}

// Which algorithm runs shows where ranks differ in it.
bool all_take_the_same(tutti_comm *comm) { return sum(comm, 100) == TUTTI_SUCCESS && sum(comm, 1) == TUTTI_SUCCESS; }

TEST(Communicators, AlgorithmsAreSetByCommunicator) {
  with_ranks(3, [](int rank, tutti_comm *world) {
    tutti_comm *same = nullptr, *differs = nullptr;
    EXPECT_OK(tutti_comm_dup(world, &same));
    EXPECT_OK(tutti_comm_dup(world, &differs));
    for (const char *algorithms :
         {"allreduce:ring,broadcast:chain", "allreduce:circulant:skips=1-2", "allreduce:table"}) {
      EXPECT_OK(tutti_comm_set_algorithms(same, algorithms));
      EXPECT_TRUE(all_take_the_same(same)) << algorithms << ": " << last_error().text;
    }
    if (rank == 1) {
      EXPECT_OK(tutti_comm_set_algorithms(differs, "allreduce:ring"));
    }
    EXPECT_EQ(error_of_calls(differs).result, TUTTI_ERROR_MISMATCH);
    EXPECT_TRUE(all_take_the_same(world)) << "another communicator's are its own";
    EXPECT_OK(tutti_comm_free(&same));
    EXPECT_OK(tutti_comm_free(&differs));
  });
}

TEST(Communicators, AlgorithmsPassToThoseMadeOfIt) {
  with_ranks(3, [](int rank, tutti_comm *world) {
    EXPECT_OK(tutti_comm_set_algorithms(world, "allreduce:ring"));
    tutti_comm *child = nullptr;
    EXPECT_OK(tutti_comm_dup(world, &child));
    if (rank == 2) {
      EXPECT_OK(tutti_comm_set_algorithms(child, "allreduce:ring"));
    }  // what it is already
    EXPECT_TRUE(all_take_the_same(child)) << last_error().text;
    if (rank == 2) {
      EXPECT_OK(tutti_comm_set_algorithms(child, "allreduce:table"));
    }
    EXPECT_EQ(error_of_calls(child).result, TUTTI_ERROR_MISMATCH);
    EXPECT_OK(tutti_comm_free(&child));
  });
}

// Ranks may set them before or after they make a persistent call only alike, but between starts they may differ.
TEST(Communicators, PersistentCallsKeepTheAlgorithmThatTheyWereMadeWith) {
  with_ranks(3, [](int rank, tutti_comm *world) {
    Ints by_table(10), by_ring(10);
    tutti_request *requests[2] = {};
    tutti_call call = call_of(TUTTI_ALLREDUCE, TUTTI_IN_PLACE, by_table.data(), by_table.size());
    EXPECT_OK(tutti_call_init(&call, world, &requests[0]));
    EXPECT_OK(tutti_comm_set_algorithms(world, "allreduce:ring"));
    call.out = by_ring.data();
    EXPECT_OK(tutti_call_init(&call, world, &requests[1]));
    for (int turn = 0; turn < 6; ++turn) {
      if (turn == 2 && rank == 0) {
        EXPECT_OK(tutti_comm_set_algorithms(world, "allreduce:recursive_doubling"));
      }
      if (turn == 4 && rank == 0) {
        EXPECT_OK(tutti_comm_set_algorithms(world, "allreduce:ring"));
      }
      std::ranges::fill(by_table, rank);
      std::ranges::fill(by_ring, rank + 1);
      for (tutti_request *request : requests) EXPECT_OK(tutti_start(request));
      for (tutti_request *&request : requests) EXPECT_OK(tutti_wait(&request, nullptr));
      EXPECT_EQ(by_table, Ints(10, 3));
      EXPECT_EQ(by_ring, Ints(10, 6));
    }
    EXPECT_TRUE(all_take_the_same(world)) << last_error().text;
    for (tutti_request *&request : requests) EXPECT_OK(tutti_request_free(&request));
  });
}

TEST(Communicators, AlgorithmsThatDoNotExistAreRefusedAtOnce) {
  with_ranks(2, [](int, tutti_comm *world) {
    expect_error(tutti_comm_set_algorithms(world, "allreduce:rings"), TUTTI_ERROR_ARGUMENT,
                 {"tutti_comm_set_algorithms: allreduce has no algorithm 'rings'; it has direct", "tutti-sched list"});
    expect_error(tutti_comm_set_algorithms(world, nullptr), TUTTI_ERROR_ARGUMENT, {"algorithms is null"});
    expect_error(tutti_comm_set_algorithms(nullptr, "allreduce:ring"), TUTTI_ERROR_COMM, {"tutti_comm_set_algorithms"});
    EXPECT_OK(tutti_comm_set_algorithms(world, "allreduce:circulant:skips=1-7"));
    expect_error(sum(world, 1), TUTTI_ERROR_CONFIG, {"tutti_comm_set_algorithms", "skip 7"});
    tutti_comm *child = nullptr;
    EXPECT_OK(tutti_comm_dup(world, &child)) << "the library's own calls are not concerned";
    EXPECT_OK(tutti_comm_set_algorithms(world, ""));
    EXPECT_OK(tutti_comm_set_algorithms(child, "allreduce:table"));
    EXPECT_TRUE(all_take_the_same(child)) << last_error().text;
    EXPECT_OK(tutti_comm_free(&child));
  });
}

TEST(Communicators, TheWorldTakesAllOfThemAlong) {
  tutti_comm *kept[2] = {};
  with_ranks(2, [&](int rank, tutti_comm *world) { EXPECT_OK(tutti_comm_dup(world, &kept[rank])); });
  for (tutti_comm *comm : kept) expect_error(tutti_barrier(comm), TUTTI_ERROR_COMM, {"freed"});
}

}  // namespace
}  // namespace tutti::test

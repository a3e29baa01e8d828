// SPDX-License-Identifier: BSD-3-Clause
//
// What threads, worlds and handles may do to each other: calls in any order, on what is there, freed, failed or
// aborted.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <random>

#include "api/expect.h"

namespace tutti::test {
namespace {

TEST(Lifetimes, ARequestThatIsListedTwiceEndsOnce) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    Ints first(10, rank), second(10, rank), third(10, rank);
    std::array<tutti_request *, 2> twice{};
    twice[0] = twice[1] = start_sum(first, comm);
    expect_error(tutti_wait_all(2, twice.data(), nullptr), TUTTI_ERROR_ARGUMENT, {"twice"});
    EXPECT_EQ(first, Ints(10, 1));
    EXPECT_EQ(twice[0], nullptr);
    tutti_request *one = start_sum(second, comm), *other = start_sum(third, comm);
    EXPECT_NE(one, other);
    EXPECT_OK(tutti_wait(&one, nullptr));
    EXPECT_OK(tutti_wait(&other, nullptr));
  });
}

TEST(Lifetimes, APersistentOneThatIsListedTwiceEndsOnce) {
  with_ranks(2, [](int rank, tutti_comm *comm) {
    Ints buffer(10, rank);
    const tutti_call call = call_of(TUTTI_ALLREDUCE, TUTTI_IN_PLACE, buffer.data(), buffer.size());
    tutti_request *request = nullptr;
    EXPECT_OK(tutti_call_init(&call, comm, &request));
    EXPECT_OK(tutti_start(request));
    std::array<tutti_request *, 2> twice = {request, request};
    EXPECT_OK(tutti_wait_all(2, twice.data(), nullptr));
    EXPECT_OK(tutti_start(request));
    EXPECT_OK(tutti_wait(&request, nullptr));
    EXPECT_EQ(buffer, Ints(10, 2));
    EXPECT_OK(tutti_request_free(&request));
  });
}

// Set where a thread is to say that it has come to wait.
thread_local std::atomic<bool> *waits = nullptr;

Start with_threads() {
  Start start;
  start.options.threads = 1;
  start.options.while_waiting = [](void *) {
    if (waits == nullptr) return;
    *waits = true;
    waits->notify_all();
  };
  return start;
}

// A call that waits, in a thread of its own. Returns once it does.
class Waiter {
 public:
  explicit Waiter(const std::function<tutti_result()> &call)
      : thread_([this, call] {
          waits = &waits_;
          result_ = call();
        }) {
    waits_.wait(false);
  }
  tutti_result result() {
    thread_.join();
    return result_;
  }

 private:
  std::atomic<bool> waits_ = false;
  tutti_result result_ = TUTTI_SUCCESS;
  std::thread thread_;
};

tutti_result probe(tutti_comm *comm) { return tutti_probe(TUTTI_ANY_SOURCE, 5, comm, nullptr); }

TEST(Lifetimes, NothingIsFreedUnderAnotherThread) {
  ThreadRanks ranks(2, with_threads());
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *world) {
    tutti_comm *comm = nullptr;
    EXPECT_OK(tutti_comm_dup(world, &comm));
    for (tutti_comm *const probed : {comm, world}) {
      Waiter waiter([=] { return probe(probed); });
      for (tutti_comm *handle : {probed, world}) {
        tutti_comm *const kept = handle;
        expect_error(tutti_comm_free(&handle), TUTTI_ERROR_STATE, {"another thread"});
        EXPECT_EQ(handle, kept);
      }
      EXPECT_OK(tutti_barrier(world)) << "no message comes before";
      std::int32_t value = rank;
      EXPECT_OK(tutti_send(&value, 1, TUTTI_INT32, 1 - rank, 5, probed));
      EXPECT_EQ(waiter.result(), TUTTI_SUCCESS);
      EXPECT_OK(tutti_recv(&value, 1, TUTTI_INT32, 1 - rank, 5, probed, nullptr));
      EXPECT_EQ(value, 1 - rank);
    }
    EXPECT_OK(tutti_comm_free(&comm));
  });
}

void free_when_left(tutti_comm *comm, tutti_result expected) {
  tutti_result freed = TUTTI_ERROR_STATE;
  while ((freed = tutti_comm_free(&comm)) == TUTTI_ERROR_STATE) std::this_thread::yield();
  EXPECT_EQ(freed, expected) << last_error().text;
}

// It has failed, and one thread knows it while another is still on its way out.
TEST(Lifetimes, WhatHasFailedStaysUntilCallsHaveLeft) {
  for (int round = 0; round < 20; ++round) {
    ThreadRanks ranks(2, with_threads());
    ASSERT_TRUE(ranks.up()) << ranks.errors();
    ranks.each([&](int rank, tutti_comm *world) {
      tutti_comm *comm = nullptr;
      EXPECT_OK(tutti_comm_dup(world, &comm));
      ranks[rank].comm = nullptr;  // freed here
      std::vector<std::unique_ptr<Waiter>> waiters;
      Ints buffer(10), message(10);
      waiters.push_back(std::make_unique<Waiter>([=] { return probe(comm); }));
      waiters.push_back(std::make_unique<Waiter>(
          [&] { return tutti_recv(message.data(), 10, TUTTI_INT32, 1 - rank, 1, comm, nullptr); }));
      if (rank == 0)
        waiters.push_back(std::make_unique<Waiter>(
            [&] { return tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), 10, TUTTI_INT32, TUTTI_SUM, comm); }));
      EXPECT_OK(tutti_barrier(world));
      EXPECT_OK(tutti_abort(world));
      free_when_left(comm, TUTTI_SUCCESS);
      free_when_left(world, TUTTI_SUCCESS);
      for (const auto &waiter : waiters) {
        const tutti_result result = waiter->result();
        EXPECT_TRUE(result == TUTTI_ERROR_ABORTED || result == TUTTI_ERROR_PEER) << "by this rank, or the other";
      }
    });
  }
}

void nothing(const void *, void *, std::size_t, void *) {}

TEST(Lifetimes, AWorldIsFreedWithAllThatIsLeftInIt) {
  std::array<std::array<Ints, 8>, 3> buffers;
  for (auto &of_rank : buffers) of_rank.fill(Ints(100'000));
  std::array<tutti_request *, 3> stale{};
  with_ranks(3, [&](int rank, tutti_comm *world) {
    auto &mine = buffers[static_cast<std::size_t>(rank)];
    const int next = (rank + 1) % 3;
    tutti_comm *comm = nullptr;
    EXPECT_OK(tutti_comm_dup(world, &comm));
    tutti_op op = TUTTI_OP_NULL;
    EXPECT_OK(tutti_op_create(&nothing, 1, 4, nullptr, &op));
    tutti_request *request = nullptr;
    for (tutti_comm *of : {comm, world}) {
      EXPECT_OK(tutti_irecv(mine[0].data(), 10, TUTTI_INT32, TUTTI_ANY_SOURCE, 1, of, &request));
      EXPECT_OK(tutti_send(mine[1].data(), 10, TUTTI_INT32, next, 2, of)) << "nobody receives it";
      EXPECT_OK(tutti_isend(mine[1].data(), 100'000, TUTTI_INT32, next, 3, of, &request));
      EXPECT_OK(tutti_issend(mine[1].data(), 10, TUTTI_INT32, rank, 4, of, &request)) << "to itself";
      for (std::size_t active : {0, 1}) {
        const tutti_call call = call_of(TUTTI_ALLREDUCE, TUTTI_IN_PLACE, mine[3 + active].data(), 50'000);
        EXPECT_OK(tutti_call_init(&call, of, &request));
        if (active != 0) {
          EXPECT_OK(tutti_start(request));
        }
      }
      EXPECT_OK(
          tutti_iallreduce(mine[1].data(), mine[of == world ? 5 : 6].data(), 100'000, TUTTI_INT32, op, of, &request));
    }
    EXPECT_OK(tutti_op_free(&op));
    void *memory = nullptr;
    EXPECT_OK(tutti_alloc(world, 100'000, &memory));
    stale[static_cast<std::size_t>(rank)] = request;
  });
  for (tutti_request *request : stale) EXPECT_EQ(tutti_wait(&request, nullptr), TUTTI_ERROR_ARGUMENT);
}

TEST(Lifetimes, WorldsDoNotKnowEachOther) {
  auto one = std::make_unique<ThreadRanks>(2);
  ThreadRanks other(2);
  ASSERT_TRUE(one->up() && other.up()) << one->errors() << other.errors();
  std::array<tutti_request *, 2> stale{};
  one->each([&](int rank, tutti_comm *world) {
    tutti_comm *const second = other[rank].comm;
    Ints first(10, rank), buffer(10, rank);
    std::array<tutti_request *, 2> requests = {start_sum(first, world), start_sum(buffer, second)};
    expect_error(tutti_wait_all(2, requests.data(), nullptr), TUTTI_ERROR_ARGUMENT, {"another world"});
    for (tutti_request *&request : requests) EXPECT_OK(tutti_wait(&request, nullptr));
    EXPECT_EQ(first, Ints(10, 1));
    EXPECT_EQ(buffer, Ints(10, 1));
    void *memory = nullptr;
    EXPECT_OK(tutti_alloc(world, 100, &memory));
    expect_error(tutti_free(second, memory), TUTTI_ERROR_ARGUMENT, {"this world"});
    std::int32_t translated = 0;
    expect_error(tutti_comm_translate(world, 1, &rank, second, &translated), TUTTI_ERROR_ARGUMENT, {"two worlds"});
    const tutti_call call = call_of(TUTTI_ALLREDUCE, TUTTI_IN_PLACE, buffer.data(), buffer.size());
    EXPECT_OK(tutti_call_init(&call, world, &stale[static_cast<std::size_t>(rank)]));
  });
  std::array<tutti_comm *, 2> gone = {(*one)[0].comm, (*one)[1].comm};
  one.reset();
  // A third one takes over what the first has left: slots of handles, chunks of requests.
  const ThreadRanks third(2);
  other.each([&](int rank, tutti_comm *world) {
    const auto r = static_cast<std::size_t>(rank);
    EXPECT_EQ(tutti_barrier(gone[r]), TUTTI_ERROR_COMM);
    EXPECT_EQ(tutti_start(stale[r]), TUTTI_ERROR_ARGUMENT);
    EXPECT_EQ(tutti_request_free(&stale[r]), TUTTI_ERROR_ARGUMENT);
    EXPECT_OK(tutti_barrier(world));
  });
}

// A thread of a rank that calls at random: what the members of its communicator do together is drawn alike on all
// ranks.
class Stormer {
 public:
  using Handles = std::array<std::atomic<tutti_comm *>, 3>;  // of all threads of the rank, freed or not

  Stormer(int rank, tutti_comm *world, tutti_comm *comm, Handles &seen, std::size_t place, unsigned seed)
      : rank_(rank),
        world_(world),
        comm_(comm),
        seen_(seen),
        place_(place),
        alike_(seed),
        own_(seed + 1 + static_cast<unsigned>(rank)) {}

  // Buffers go with it, so it stays until the world has been freed.
  void run(bool aborts) {
    for (int call = 0; call < 60; ++call) {
      Ints &buffer = *buffers_.emplace_back(std::make_unique<Ints>(1 + alike_() % 5 * 3000));
      tutti_request *request = nullptr;
      if (const unsigned kind = alike_() % 8; kind < 5) together(kind, call, buffer, &request);
      else alone(aborts);
      if (request != nullptr) requests_.push_back(request);
    }
    if (!aborts) return;
    tutti_abort(world_);
    tutti_wait_all(requests_.size(), requests_.data(), nullptr);
  }

 private:
  // Results are those of a world that may have been aborted at any moment.
  void together(unsigned kind, int call, Ints &buffer, tutti_request **request) {
    const std::size_t count = buffer.size();
    if (kind == 0) tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), count, TUTTI_INT32, TUTTI_SUM, comm_);
    if (kind == 1) {
      tutti_op op = TUTTI_OP_NULL;
      tutti_op_create(&nothing, 1, 4, nullptr, &op);
      tutti_iallreduce(TUTTI_IN_PLACE, buffer.data(), count, TUTTI_INT32, op, comm_, request);
      tutti_op_free(&op);
    }
    if (kind == 2) {
      tutti_isend(buffer.data(), count, TUTTI_INT32, (rank_ + 1) % 3, call, comm_, request);
      requests_.push_back(std::exchange(*request, nullptr));
      Ints &received = *buffers_.emplace_back(std::make_unique<Ints>(count));
      tutti_irecv(received.data(), count, TUTTI_INT32, TUTTI_ANY_SOURCE, call, comm_, request);
    }
    if (kind == 3) {
      tutti_wait(&persistent_, nullptr);
      tutti_request_free(&persistent_);
      const tutti_call again = call_of(TUTTI_ALLREDUCE, TUTTI_IN_PLACE, buffer.data(), count);
      if (tutti_call_init(&again, comm_, &persistent_) == TUTTI_SUCCESS) tutti_start(persistent_);
    }
    if (kind == 4) {
      tutti_comm *made = nullptr;
      if (tutti_comm_dup(comm_, &made) != TUTTI_SUCCESS) return;
      seen_[place_] = made;
      tutti_iallreduce(TUTTI_IN_PLACE, buffer.data(), count, TUTTI_INT32, TUTTI_MAX, made, request);
      for (std::int32_t found = 0; tutti_comm_free(&made) == TUTTI_ERROR_STATE;)
        tutti_iprobe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, world_, &found, nullptr);
    }
  }

  // On communicators of other threads, too, which they may be about to free.
  void alone(bool aborts) {
    tutti_comm *const any = seen_[own_() % seen_.size()];
    std::int32_t number = 0;
    std::size_t size = 0;
    void *memory = nullptr;
    std::vector<std::int32_t> indices(requests_.size());
    switch (own_() % 7) {
      case 0: tutti_query(any, own_() % 2 != 0 ? "operations" : "links", nullptr, &size); break;
      case 1: tutti_comm_size(any, &number); break;
      case 2: tutti_comm_translate(world_, 1, &number, any, &number); break;
      case 3: tutti_comm_failed(any, &size, nullptr); break;
      case 4: tutti_iprobe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, any, &number, nullptr); break;
      case 5:
        if (tutti_alloc(any, 10'000, &memory) == TUTTI_SUCCESS) tutti_free(world_, memory);
        break;
      default:
        tutti_test_some(requests_.size(), requests_.data(), &size, indices.data(), nullptr);
        if (aborts && own_() % 20 == 0) tutti_abort(any);
    }
  }

  const int rank_;
  tutti_comm *const world_, *const comm_;
  Handles &seen_;
  const std::size_t place_;
  std::minstd_rand alike_, own_;
  std::vector<std::unique_ptr<Ints>> buffers_;
  std::vector<tutti_request *> requests_;
  tutti_request *persistent_ = nullptr;
};

// Says something under a sanitizer, and where something hangs.
TEST(Lifetimes, ThreadsMayCallWhateverTheyLike) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::array<Stormer::Handles, 3> seen{};
    std::array<std::vector<std::unique_ptr<Stormer>>, 3> stormers;
    const char *progress = seed % 2 == 0 ? "call" : "shared";
    const auto storm = [&](int rank, tutti_comm *world) {
      Stormer::Handles &handles = seen[static_cast<std::size_t>(rank)];
      std::vector<std::thread> threads;
      std::array<tutti_comm *, 3> comms{};
      for (std::size_t i = 0; i < comms.size(); ++i) {
        EXPECT_OK(tutti_comm_dup(world, &comms[i]));
        handles[i] = comms[i];
      }
      auto &mine = stormers[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < comms.size(); ++i)
        mine.push_back(
            std::make_unique<Stormer>(rank, world, comms[i], handles, i, 100 * seed + 10 * static_cast<unsigned>(i)));
      for (const auto &stormer : mine) threads.emplace_back([&] { stormer->run(seed % 4 >= 2); });
      for (std::thread &thread : threads) thread.join();
    };
    with_ranks(3, storm, {{"TUTTI_PROGRESS", progress}}, true);
  }
}

}  // namespace
}  // namespace tutti::test

// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks that go on after deaths: every survivor gets the error, shrinks, and works on with those that live.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <functional>
#include <map>
#include <thread>

#include "rank.h"

namespace mp {
namespace {

// When a rank that is to die does so.
struct Victim {
  std::string moment;  // "call", "shrink", "after", "exit"
  int delay_us = 0;    // from there on
};

// "3", "3@shrink:500": who, when, how many microseconds later.
std::map<int, Victim> read_victims(const Arguments &arguments) {
  std::map<int, Victim> victims;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string &text = arguments[i];
    const std::size_t at = text.find('@'), colon = text.find(':');
    victims[std::stoi(text)] = {at == std::string::npos ? "call" : text.substr(at + 1, colon - at - 1),
                                colon == std::string::npos ? 0 : std::stoi(text.substr(colon + 1))};
  }
  return victims;
}

void rest_us(long microseconds) {
  timespec rest = {microseconds / 1'000'000, microseconds % 1'000'000 * 1000};
  while (nanosleep(&rest, &rest) != 0) {
  }
}

// Dies so much later, whatever it does then.
void die_in(int microseconds) {
  std::thread([microseconds] {
    rest_us(microseconds);
    raise(SIGKILL);
  }).detach();
}

// Only PEER is an error that a death may bring.
bool worked(tutti_result result, const char *what) {
  MP_CHECK(result == TUTTI_SUCCESS || result == TUTTI_ERROR_PEER, std::string(what) + ": " + last_error().text);
  return result == TUTTI_SUCCESS;
}
#define MP_TRY(call) \
  if (!worked((call), #call)) return false

std::int64_t sum_of_ranks(int size) { return std::int64_t{size} * (size - 1) / 2; }

bool reductions(tutti_comm *comm) {
  const int size = size_of(comm), rank = rank_of(comm);
  for (const std::size_t count : {std::size_t{1}, std::size_t{3000}, std::size_t{300'000}}) {
    std::vector<std::int64_t> data(count, rank);
    MP_TRY(tutti_allreduce(TUTTI_IN_PLACE, data.data(), count, TUTTI_INT64, TUTTI_SUM, comm));
    for (const std::int64_t element : data) MP_CHECK(element == sum_of_ranks(size), std::to_string(element));
  }
  for (int root = 0; root < size; ++root) {
    std::vector<std::int64_t> data(500, rank == root ? root + 7 : -1);
    MP_TRY(tutti_broadcast(data.data(), data.size(), TUTTI_INT64, root, comm));
    for (const std::int64_t element : data) MP_CHECK(element == root + 7, std::to_string(element));
  }
  return true;
}

bool exchanges(tutti_comm *comm) {
  const int size = size_of(comm), rank = rank_of(comm);
  std::vector<std::int32_t> in, out(static_cast<std::size_t>(size));
  for (int to = 0; to < size; ++to) in.push_back(rank * 1000 + to);
  MP_TRY(tutti_alltoall(in.data(), out.data(), 1, TUTTI_INT32, comm));
  for (int from = 0; from < size; ++from) {
    const std::int32_t got = out[static_cast<std::size_t>(from)];
    MP_CHECK(got == from * 1000 + rank, std::to_string(got));
  }
  std::vector<std::int32_t> mine(30'000, rank), theirs(mine.size());
  tutti_status status;
  MP_TRY(tutti_sendrecv(mine.data(), mine.size(), TUTTI_INT32, (rank + 1) % size, 5, theirs.data(), theirs.size(),
                        TUTTI_INT32, TUTTI_ANY_SOURCE, 5, comm, &status));
  MP_CHECK(status.source == (rank + size - 1) % size && theirs.back() == status.source, "another message");
  return true;
}

bool persistent(tutti_comm *comm) {
  std::int64_t element = 0;
  tutti_call call = TUTTI_INIT_STRUCT(tutti_call);
  call.collective = TUTTI_ALLREDUCE;
  call.type = TUTTI_INT64;
  call.op = TUTTI_SUM;
  call.in = TUTTI_IN_PLACE;
  call.out = &element;
  call.count = 1;
  tutti_request *request = nullptr;
  MP_TRY(tutti_call_init(&call, comm, &request));
  bool fine = true;
  for (int start = 0; start < 3 && fine; ++start) {
    element = rank_of(comm);
    fine = worked(tutti_start(request), "start") && worked(tutti_wait(&request, nullptr), "wait");
    MP_CHECK(!fine || element == sum_of_ranks(size_of(comm)), std::to_string(element));
  }
  MP_OK(tutti_request_free(&request));
  return fine;
}

// All that a communicator can do; false where a death came in between.
bool exercise(tutti_comm *comm) {
  if (!reductions(comm) || !exchanges(comm) || !persistent(comm)) return false;
  MP_TRY(tutti_barrier(comm));
  tutti_comm *half = nullptr, *copy = nullptr;
  MP_TRY(tutti_comm_split(comm, rank_of(comm) % 2, 0, &half));
  bool fine = reductions(half) && exchanges(half);
  fine = worked(tutti_comm_free(&half), "free half") && fine;
  if (!fine) return false;
  MP_TRY(tutti_comm_dup(comm, &copy));
  fine = reductions(copy);
  return worked(tutti_comm_free(&copy), "free copy") && fine;
}

// Makes a communicator of those who live on, and uses it: where a death came in between, some may have made it and
// others not.
bool make_and_use(tutti_comm *world, bool member) {
  tutti_comm *made = nullptr;
  MP_TRY(tutti_comm_split(world, member ? 0 : TUTTI_UNDEFINED, 0, &made));
  if (!member) return true;
  std::int64_t one = 1;
  const bool fine =
      worked(tutti_allreduce(TUTTI_IN_PLACE, &one, 1, TUTTI_INT64, TUTTI_SUM, made), "on what was made") &&
      worked(tutti_barrier(made), "on what was made");
  return worked(tutti_comm_free(&made), "free") && fine;
}

// One call of each kind, until a death is noticed.
bool call_world(const std::string &kind, tutti_comm *world, std::vector<double> &buffer, bool dies) {
  const int rank = rank_of(world), size = size_of(world);
  if (kind == "make") return make_and_use(world, !dies);
  if (kind == "barrier") return worked(tutti_barrier(world), "barrier");
  if (kind == "message" || kind == "any") {
    std::int32_t token = rank;
    std::int32_t got = -1;
    const std::int32_t from = (rank + size - 1) % size;
    MP_TRY(tutti_sendrecv(&token, 1, TUTTI_INT32, (rank + 1) % size, 1, &got, 1, TUTTI_INT32,
                          kind == "any" ? TUTTI_ANY_SOURCE : from, 1, world, nullptr));
    MP_CHECK(got == from, std::to_string(got));
    return true;
  }
  std::fill(buffer.begin(), buffer.end(), 1.0);
  MP_TRY(tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), buffer.size(), TUTTI_DOUBLE, TUTTI_SUM, world));
  for (const double element : buffer) MP_CHECK(element == size, std::to_string(element));
  return true;
}

// What everyone who lives on has to see: each kind of call fails at once and says who is dead.
void expect_failed(tutti_comm *world, const std::map<int, Victim> &victims) {
  std::int64_t token = 0;
  std::vector<std::function<tutti_result()>> calls = {
      [&] { return tutti_barrier(world); },
      [&] { return tutti_allreduce(TUTTI_IN_PLACE, &token, 1, TUTTI_INT64, TUTTI_SUM, world); },
      [&] { return tutti_send(&token, 1, TUTTI_INT64, (rank_of(world) + 1) % size_of(world), 3, world); },
      [&] { return tutti_recv(&token, 1, TUTTI_INT64, TUTTI_ANY_SOURCE, 3, world, nullptr); },
      [&] {
        tutti_comm *made = nullptr;
        return tutti_comm_dup(world, &made);
      },
  };
  for (const auto &call : calls) {
    const tutti_result result = call();
    const tutti_error error = last_error();
    MP_CHECK(result == TUTTI_ERROR_PEER && victims.contains(error.peer), error.text);
    MP_CHECK(std::string(error.text).find("rank " + std::to_string(error.peer) + " is gone") == 0, error.text);
  }
  std::size_t count = 0;
  MP_OK(tutti_comm_failed(world, &count, nullptr));
  std::vector<std::int32_t> dead(count);
  MP_OK(tutti_comm_failed(world, &count, dead.data()));
  MP_CHECK(count >= 1 && std::ranges::is_sorted(dead), "who is dead");
  for (const std::int32_t rank : dead) MP_CHECK(victims.contains(rank), std::to_string(rank));
}

// Until all victims are known to be dead, whom `bystanders` knows nothing of.
void await_deaths(tutti_comm *world, tutti_comm *bystanders, std::size_t victims) {
  for (std::int64_t missing = 1; missing != 0;) {
    std::size_t count = 0;
    MP_OK(tutti_comm_failed(world, &count, nullptr));
    missing = static_cast<std::int64_t>(victims - count);
    MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &missing, 1, TUTTI_INT64, TUTTI_MAX, bystanders));
  }
}

// Together with all who live: a communicator on which everything works. Victims may still be among them.
tutti_comm *shrink_until_it_works(tutti_comm *failed, tutti_comm *bystanders, const Victim *dies) {
  if (dies != nullptr && dies->moment == "shrink") die_in(dies->delay_us);
  for (tutti_comm *from = failed;;) {
    tutti_comm *made = nullptr;
    MP_OK(tutti_comm_shrink(from, &made));
    if (dies != nullptr && dies->moment == "after") die_in(dies->delay_us);
    std::int64_t broken = exercise(made) ? 0 : 1;
    if (bystanders == nullptr) pause();
    MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &broken, 1, TUTTI_INT64, TUTTI_MAX, bystanders));
    if (broken == 0) return made;
    if (from != failed) MP_OK(tutti_comm_free(&from));
    from = made;
  }
}

}  // namespace

// go_on KIND VICTIM...: calls of that kind on the world, and of another on a communicator of those who are never
// killed, until the first victim dies; from then on what this file's head says.
int go_on(const Arguments &arguments) {
  const std::string kind = arguments.at(0);
  const std::map<int, Victim> victims = read_victims(arguments);
  tutti_comm *world = nullptr, *bystanders = nullptr;
  MP_OK(start(&world));
  const int rank = rank_of(world);
  const auto mine = victims.find(rank);
  const Victim *const dies = mine != victims.end() ? &mine->second : nullptr;
  MP_OK(tutti_comm_split(world, dies != nullptr ? TUTTI_UNDEFINED : 0, 0, &bystanders));
  // Not all ranks have the same numbers of communicators free, so they have to agree on one for what they shrink to.
  tutti_comm *some = nullptr;
  MP_OK(tutti_comm_split(world, rank % 2 == 0 ? 0 : TUTTI_UNDEFINED, 0, &some));
  std::vector<double> buffer(kind == "large" ? 2'000'000 : 1000);
  for (int i = 0; i < 3; ++i)
    static_cast<void>(call_world(kind, world, buffer, dies != nullptr));  // who is done may die at once
  tell("ready");
  if (dies != nullptr && dies->moment == "call") die_in(dies->delay_us);
  if (dies != nullptr && dies->moment == "exit") std::_Exit(0);
  std::int64_t calls = 0;
  for (std::int64_t over = 0; over == 0; ++calls) {
    over = call_world(kind, world, buffer, dies != nullptr) ? 0 : 1;
    if (bystanders == nullptr) continue;
    if (kind == "idle") rest_us(20'000);
    // Undisturbed, whatever becomes of the world.
    std::int64_t sum = 1;
    MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &sum, 1, TUTTI_INT64, TUTTI_SUM, bystanders));
    MP_CHECK(sum == size_of(bystanders), std::to_string(sum));
    MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &over, 1, TUTTI_INT64, TUTTI_MAX, bystanders));
  }
  // A rank whose last call came to its end has not noticed yet.
  while (call_world(kind, world, buffer, dies != nullptr)) {
  }
  expect_failed(world, victims);
  tell("error " + std::string(last_error().text));
  if (bystanders != nullptr) MP_CHECK(exercise(bystanders), "on a communicator of living ranks");
  tutti_comm *living = shrink_until_it_works(world, bystanders, dies);
  await_deaths(world, bystanders, victims.size());
  if (size_of(living) != size_of(bystanders)) {
    tutti_comm *older = living;
    living = shrink_until_it_works(older, bystanders, dies);
    MP_OK(tutti_comm_free(&older));
  }
  MP_CHECK(size_of(living) == size_of(bystanders) && rank_of(living) == rank_of(bystanders), "who lives on");
  tell("alive " + std::to_string(size_of(living)));
  MP_OK(tutti_comm_free(&bystanders));
  MP_OK(tutti_comm_free(&living));
  MP_OK(tutti_comm_free(&world));
  return 0;
}

}  // namespace mp

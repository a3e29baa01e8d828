// SPDX-License-Identifier: BSD-3-Clause
//
// soak_rank SECONDS SEED: random operations on random communicators, all checked, while the software device breaks
// connections, loses messages and delays them. Run by tests/soak/run. Fails for a wrong result, for an error, and for
// memory that grows.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "soak.h"

namespace soak {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kArenaBytes = std::size_t{12} << 20;
// Between two looks at the clock, which rank 0 shares with all.
constexpr std::uint64_t kRounds = 16;
// By then most plans, pools and pages that there will be have been needed.
constexpr double kWarm = 0.2;
// What a rank's memory may grow by after that. The scratch memory of plans, and what waits for later calls, is kept for
// reuse, and what is needed most at once still rises a little by rare coincidences: 8 of 45 MiB within a minute were
// seen with vectors four times as long as these, with faults and without. In a minute 40 bytes lost in each operation
// would be more than this; in an hour, 4 KiB in each reconnect.
constexpr double kMostGrownMib = 8;

// What wrong() tells.
struct Where {
  std::uint64_t seed = 0, round = 0;
  int rank = -1;
} where;

double resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") {
      double kib = 0;
      status >> kib;
      return kib / 1024;
    }
  return 0;
}

// Of all links of this rank.
std::int64_t links(tutti_comm *comm, const char *what) {
  std::string text(65536, '\0');
  std::size_t bytes = text.size();
  SOAK_OK(tutti_query(comm, "links", text.data(), &bytes));
  std::int64_t sum = 0;
  for (const nlohmann::json &link : nlohmann::json::parse(text.c_str())) sum += link[what].get<std::int64_t>();
  return sum;
}

void one_round(Soak &soak) {
  soak.arena.clear();
  const std::size_t kind = soak.dice.below(100);
  if (kind < 35) one_collective(soak);
  else if (kind < 60) several_collectives(soak);
  else if (kind < 85) exchange_messages(soak);
  else if (kind < 92) exchange_in_a_ring(soak);
  else if (kind < 96) make_communicator(soak);
  else if (kind < 99) free_communicator(soak);
  else if (static_cast<int>(soak.dice.below(soak.groups[0].members.size())) == soak.rank)
    std::this_thread::sleep_for(std::chrono::milliseconds(soak.own.below(20)));  // a rank that computes
}

enum Phase : std::int32_t { warming, measured, over };

// Rounds until that phase is over on rank 0's clock.
void run_until(Soak &soak, Phase phase, Clock::time_point end) {
  for (std::int32_t now = phase; now == phase;) {
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      where.round = ++soak.round;
      one_round(soak);
    }
    if (soak.rank == 0 && Clock::now() >= end) now = phase + 1;
    SOAK_OK(tutti_broadcast(&now, 1, TUTTI_INT32, 0, soak.groups[0].comm));
  }
}

// The device's faults, by the seed, other ones on each rank; what TUTTI_SOFTDEV has already counts instead.
void ask_for_faults(std::uint64_t seed) {
  const char *rank = std::getenv("RANK");
  // Distances in work requests, or in messages that come in: some breaks a second on each rank. A lost message is sent
  // again after 1 ms, up to twice; lost three times in a row, it breaks its connection.
  const std::string faults =
      "fault=qp_error:~1500,fault=drop:~700:1,fault=drop:~4000:3,fault=delay:~500:2000,seed=" +
      std::to_string(seed % 1'000'000 * 64 + static_cast<std::uint64_t>(rank == nullptr ? 0 : std::atoi(rank)));
  setenv("TUTTI_SOFTDEV", faults.c_str(), 0);
  // The world's and one more: of other ranks' pages each counts as memory of this one from its first use, which may be
  // late.
  setenv("TUTTI_BOARDS", "2", 0);
  setenv("TUTTI_QP_TIMEOUT", "8", 0);
  setenv("TUTTI_QP_RETRY", "2", 0);
}

void tell(const Soak &soak, double seconds, const std::int64_t (&sums)[2], const double (&memory)[3]) {
  std::printf(
      "soak: seed %llu, %.0f s, %d ranks: %llu collectives, %llu messages, %llu communicators made; %lld connections "
      "made again, %lld messages sent again; a rank has %.1f MiB at most, %.1f MiB more than after a fifth of the "
      "time\n",
      static_cast<unsigned long long>(soak.seed), seconds, soak.groups[0].size(),
      static_cast<unsigned long long>(soak.collectives), static_cast<unsigned long long>(soak.messages),
      static_cast<unsigned long long>(soak.communicators), static_cast<long long>(sums[0] / 2),
      static_cast<long long>(sums[1]), memory[0], memory[1]);
  std::fflush(stdout);
}

int run(double seconds, std::uint64_t seed) {
  where.seed = seed;
  ask_for_faults(seed);
  tutti_comm *world = nullptr;
  SOAK_OK(tutti_init(nullptr, nullptr, &world));
  Group all = {world, {}, -1};
  std::int32_t rank = -1, size = 0;
  SOAK_OK(tutti_comm_rank(world, &rank));
  SOAK_OK(tutti_comm_size(world, &size));
  for (int member = 0; member < size; ++member) all.members.push_back(member);
  all.me = where.rank = rank;

  Soak soak(seed, rank, std::move(all));
  const Clock::time_point begin = Clock::now();
  const auto after = [&](double share) {
    return begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds * share));
  };
  run_until(soak, warming, after(kWarm));
  const double warm_mib = resident_mib();
  run_until(soak, measured, after(1));
  const double end_mib = resident_mib();

  while (soak.groups.size() > 1) free_communicator(soak);
  const double grown_mib = end_mib - warm_mib;
  std::int64_t sums[2] = {links(world, "reconnects"), links(world, "retransmitted")};
  SOAK_OK(tutti_allreduce(TUTTI_IN_PLACE, sums, 2, TUTTI_INT64, TUTTI_SUM, world));
  double memory[3] = {end_mib, grown_mib, 0};
  SOAK_OK(tutti_allreduce(TUTTI_IN_PLACE, memory, 3, TUTTI_DOUBLE, TUTTI_MAX, world));
  if (rank == 0) tell(soak, seconds, sums, memory);
  if (grown_mib > kMostGrownMib)
    wrong("memory grew from " + std::to_string(warm_mib) + " MiB to " + std::to_string(end_mib) + " MiB");
  if (sums[0] == 0 || sums[1] == 0) wrong("no connection was made again, or nothing sent again: nothing was tried");
  SOAK_OK(tutti_comm_free(&soak.groups[0].comm));
  return 0;
}

}  // namespace

std::byte *Arena::take(std::size_t bytes) {
  const std::size_t begin = used_;
  used_ += (bytes + 63) / 64 * 64;
  if (used_ > memory_.size()) wrong("the soak's own buffers are too small");
  return memory_.data() + begin;
}

Soak::Soak(std::uint64_t from, int world_rank, Group world)
    : seed(from),
      rank(world_rank),
      dice(from),
      own(from * 64 + static_cast<std::uint64_t>(world_rank) + 1),
      arena(kArenaBytes),
      groups{std::move(world)} {}

void wait(Soak &soak, std::vector<tutti_request *> &requests, std::vector<tutti_status> *statuses) {
  tutti_status *into = statuses == nullptr ? nullptr : statuses->data();
  const std::size_t way = soak.own.below(4);
  if (way == 0) {
    SOAK_OK(tutti_wait_all(requests.size(), requests.data(), into));
  } else if (way == 1) {
    for (std::size_t left = requests.size(); left > 0; --left) {
      std::int32_t index = -1;
      tutti_status status = {};
      SOAK_OK(tutti_wait_any(requests.size(), requests.data(), &index, &status));
      if (index < 0) wrong("wait_any found nothing to wait for");
      if (into != nullptr) into[index] = status;
    }
  } else if (way == 2) {  // the last one first
    for (std::size_t i = requests.size(); i > 0; --i)
      SOAK_OK(tutti_wait(&requests[i - 1], into == nullptr ? nullptr : &into[i - 1]));
  } else {
    for (std::size_t i = 0; i < requests.size(); ++i)
      for (std::int32_t done = 0; done == 0; std::this_thread::yield())
        SOAK_OK(tutti_test(&requests[i], &done, into == nullptr ? nullptr : &into[i]));
  }
}

void wrong(const std::string &text) {
  std::fprintf(stderr, "soak: FAILED with seed %llu: rank %d, round %llu: %s\n",
               static_cast<unsigned long long>(where.seed), where.rank, static_cast<unsigned long long>(where.round),
               text.c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

void expect_success(tutti_result result, const char *what) {
  if (result == TUTTI_SUCCESS) return;
  tutti_error error = TUTTI_INIT_STRUCT(tutti_error);
  tutti_last_error(&error);
  wrong(std::string(what) + ": " + tutti_result_name(result) + ": " + error.text);
}

}  // namespace soak

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "soak_rank SECONDS SEED; see tests/soak/run\n");
    return 2;
  }
  return soak::run(std::atof(argv[1]), std::strtoull(argv[2], nullptr, 10));
}

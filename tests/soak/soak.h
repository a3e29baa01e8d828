// SPDX-License-Identifier: BSD-3-Clause
//
// What the parts of the soak share. All ranks draw the same things from one seed, so each knows what every other one
// does and what has to come of it; what only one rank decides (in which order it waits, when it sleeps) comes from
// dice of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace soak {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(engine_() % count); }
  bool one_in(std::size_t count) { return below(count) == 0; }

 private:
  std::mt19937_64 engine_;
};

// A communicator as every rank of the world knows it, member or not.
struct Group {
  tutti_comm *comm = nullptr;  // null: this rank is not in it
  std::vector<int> members;    // ranks of the world
  int me = -1;                 // this rank's place among them
  int size() const { return static_cast<int>(members.size()); }
};

// Buffers of one round. One piece of memory, touched at the start, so that the rounds themselves need none.
class Arena {
 public:
  explicit Arena(std::size_t bytes) : memory_(bytes, std::byte{1}) {}
  void clear() { used_ = 0; }
  std::byte *take(std::size_t bytes);

 private:
  std::vector<std::byte> memory_;
  std::size_t used_ = 0;
};

struct Soak {
  Soak(std::uint64_t from, int world_rank, Group world);
  const std::uint64_t seed;
  const int rank;
  Dice dice;  // the same on all ranks
  Dice own;
  Arena arena;
  std::vector<Group> groups;  // the first is the world
  std::uint64_t round = 0;
  // Of all ranks, as all ranks draw them.
  std::uint64_t collectives = 0, messages = 0, communicators = 0;

  Group &any_group() { return groups[dice.below(groups.size())]; }
};

// One round each; they return when all of it is done here and has been found right.
void one_collective(Soak &soak);
void several_collectives(Soak &soak);
void exchange_messages(Soak &soak);
void exchange_in_a_ring(Soak &soak);
void make_communicator(Soak &soak);
void free_communicator(Soak &soak);

// Waits in one of the ways there are, as the rank's own dice say; statuses are by place.
void wait(Soak &soak, std::vector<tutti_request *> &requests, std::vector<tutti_status> *statuses);

// Says what was wrong, and the seed, and ends this process.
[[noreturn]] void wrong(const std::string &text);
void expect_success(tutti_result result, const char *what);

}  // namespace soak

#define SOAK_OK(call) ::soak::expect_success((call), #call)

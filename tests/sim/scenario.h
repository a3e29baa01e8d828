// SPDX-License-Identifier: BSD-3-Clause
//
// What a seed stands for: the world (ranks, settings, device limits) and the calls that its ranks make. Everything is
// drawn here, so that a scenario can be printed and made again from its seed.
#pragma once

#include <string>
#include <vector>

#include "support/collective_call.h"
#include "support/random.h"
#include "support/world_of_threads.h"

namespace tutti::test {

// A call as all ranks make it.
struct ModelShape {
  Problem problem;  // without values
  reduce::Type type = reduce::Type::uint8;
  reduce::Op op = reduce::Op::sum;
};

// A persistent call of the first communicator: what every start does, and how many there are.
struct Persistent {
  ModelShape shape;
  std::uint32_t starts = 1;
};

// A message on the first communicator; each rank sends and asks for its own in the order of the list. What comes to
// receives from any source has a tag of its own; who asks for any tag of a rank, asks so for all that comes from it.
struct Message {
  int from = 0, to = 0;
  std::int32_t tag = 0;
  std::size_t bytes = 0;
  bool synchronous = false;
  bool any_source = false, any_tag = false;  // as the receive says
};

// A rank that is killed; the others learn of it one by one.
struct DeathOf {
  int rank = 0;
  std::uint64_t turn = 0;    // of all ranks
  std::int64_t news_ns = 0;  // the longest time until a survivor knows
};

struct Scenario {
  std::uint64_t seed = 0;
  int ranks = 2;
  Config config;
  std::vector<softdev::Caps> caps;  // by rank
  // By communicator: the calls that every rank makes on it, in this order.
  std::vector<std::vector<ModelShape>> calls;
  std::vector<Persistent> persistent;  // made in this order, started in any
  std::vector<Message> messages;
  std::uint32_t first_call = 0;  // its number
  std::size_t depth = 1;         // calls of a communicator that a rank may have under way
  // A rank outside a call computes: it does not poll until its next call begins (after its last: until all are done).
  bool away = false;
  // By rank: what breaks. Empty: nothing does.
  std::vector<std::vector<softdev::Fault>> faults;
  std::vector<std::uint32_t> speed;  // by rank: how often it has its turn
  std::vector<DeathOf> deaths;
  // With deaths: the second communicator is of those who never die, and goes on through them. Whoever lives shrinks,
  // and makes these calls, whatever the number of ranks, on what that gave.
  std::vector<ModelShape> after;

  bool dies(int rank) const;
  std::string text() const;
};

Scenario draw_scenario(std::uint64_t seed);

}  // namespace tutti::test

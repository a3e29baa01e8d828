// SPDX-License-Identifier: BSD-3-Clause
//
// All communicators of a world: the world's own, and those made of it. They share the one mesh; a communicator is a
// number in messages, a group, and what its calls need.
//
// Invariants
// - All members of a communicator use one number for it, and no other communicator of any of them has that number.
//   Communicators without a common member may share one.
// - A number is used again after all members have met in free(), so that no message of data of the earlier one is under
//   way; news of the earlier one that may be are told apart by the generation.
// - A communicator that failed keeps its number forever: nobody knows what is still under way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/engine.h"

namespace tutti::comm {

class Family {
 public:
  static constexpr std::size_t kMost = 65'536;  // numbers in a message
  static constexpr std::int32_t kNoColour = -1;

  Family(Engine &engine, const Setting &setting);
  ~Family();
  Family(const Family &) = delete;
  Family &operator=(const Family &) = delete;

  Communicator &world() { return *members_[0]; }
  // Collective over the parent: the ranks of each colour form a communicator, in the order of their keys, and of their
  // ranks where keys are equal. Null for kNoColour.
  Result<Communicator *> split(Communicator &parent, std::int32_t colour, std::int32_t key, Lock &lock);
  // Collective over the parent, with the same list everywhere: those ranks of it, in that order. Null on other ranks.
  Result<Communicator *> create(Communicator &parent, std::span<const std::int32_t> ranks, Lock &lock);
  // Collective. Nothing of it may be under way. It is gone then, even with an error.
  Result<> free(Communicator &communicator, Lock &lock);

 private:
  struct Place {
    std::int32_t colour, key;
    std::uint32_t list;  // of ranks, where one is given: has to be the same everywhere
  };
  Result<std::vector<Place>> exchange(Communicator &parent, Place mine, Lock &lock);
  Result<Identity> agree(Communicator &parent, Lock &lock);
  // Of the ranks that say the same colour.
  Result<Communicator *> form(Communicator &parent, Place mine, Lock &lock);
  Result<Communicator *> make(Communicator &parent, Identity identity, const std::vector<Place> &places, Place mine);

  Engine &engine_;
  std::vector<std::unique_ptr<Communicator>> members_;  // by number
  std::vector<bool> taken_;                             // by number
  std::uint32_t generation_ = 0;                        // of the latest communicator
};

// All ranks of a communicator meet for the last time.
Result<> part(Engine &engine, Communicator &communicator, Lock &lock);

}  // namespace tutti::comm

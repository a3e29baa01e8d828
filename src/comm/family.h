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
// - A communicator that failed keeps its number forever: nobody knows what is still under way. So does a number that
//   others may have agreed on when this rank's making of a communicator failed.
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
  friend class Shrinking;
  static constexpr std::size_t kMost = mesh::kNobody;  // numbers in a message, but for that one
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
  // Made together by the living members of the parent, failed or not: a communicator of them, in their order.
  Result<Communicator *> shrink(Communicator &parent, Lock &lock);
  // Whether shrink() has given one: the program goes on after a death.
  bool went_on() const { return went_on_; }
  // The living members of the parent meet for the last time.
  Result<> part_living(Communicator &parent, std::int64_t limit_ns, Lock &lock);
  // One whose members know of it by other means, and have kept its number free.
  Communicator &adopt(Identity identity, std::vector<std::int32_t> world_ranks, const Setting &setting);
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

  Communicator *found(const Setting &setting, Identity identity, std::vector<std::int32_t> world_ranks);
  std::size_t hold_number(std::size_t from);
  void give_number(std::size_t number);

  Engine &engine_;
  bool went_on_ = false;
  std::vector<std::unique_ptr<Communicator>> members_;  // by number
  std::vector<bool> taken_;                             // by number
  std::uint32_t generation_ = 0;                        // of the latest communicator
};

// One shrink(), between whose steps somebody has to make progress until the parent's agreement is over.
class Shrinking {
 public:
  Shrinking(Family &family, Communicator &parent);
  ~Shrinking();
  Shrinking(const Shrinking &) = delete;
  Shrinking &operator=(const Shrinking &) = delete;

  // What this rank brings to the next agreement.
  Ballot ballot();
  // Takes what was agreed on: the communicator; or null, and there is another agreement to come.
  Result<Communicator *> take(const Ballot &agreed);

 private:
  Family &family_;
  Communicator &parent_;
  std::size_t number_ = 0, from_ = 1;
};

// All ranks of a communicator meet for the last time.
Result<> part(Engine &engine, Communicator &communicator, Lock &lock);

}  // namespace tutti::comm

// SPDX-License-Identifier: BSD-3-Clause
//
// The ranks of a communicator among those of the world. The mesh counts in ranks of the world; whoever speaks for a
// communicator translates at its border.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti::mesh {

class Group {
 public:
  // All ranks of the world, in their order.
  static Group world(int ranks) {
    Group group;
    group.ranks_ = group.world_ranks_ = ranks;
    return group;
  }
  // Rank r of the group is rank members[r] of the world; each at most once.
  static Group of(std::vector<std::int32_t> members, int world_ranks) {
    Group group;
    group.ranks_ = static_cast<int>(members.size());
    group.world_ranks_ = world_ranks;
    group.members_ = std::move(members);
    group.positions_.assign(static_cast<std::size_t>(world_ranks), -1);
    for (int rank = 0; rank < group.ranks_; ++rank)
      group.positions_[static_cast<std::size_t>(group.members_[static_cast<std::size_t>(rank)])] = rank;
    return group;
  }

  int ranks() const { return ranks_; }
  int world_ranks() const { return world_ranks_; }
  int world_rank(int rank) const { return members_.empty() ? rank : members_[static_cast<std::size_t>(rank)]; }
  // -1 for a rank of the world that is not in it.
  int rank_of(int world_rank) const {
    return positions_.empty() ? world_rank : positions_[static_cast<std::size_t>(world_rank)];
  }

 private:
  int ranks_ = 0, world_ranks_ = 0;
  std::vector<std::int32_t> members_, positions_;  // empty: the world
};

}  // namespace tutti::mesh

// SPDX-License-Identifier: BSD-3-Clause
//
// The circulant pipeline: n blocks go from one rank to all others in n - 1 + q rounds, q = ceil(log2 p), the least
// there can be. In each round a rank sends one block and gets one, at the distances s(k) = ceil(p / 2^(q-k)) in turn.
// Which block it gets at which distance follows from a search over sums of distances, which is the same in all phases
// of q rounds. Ranks are counted from the root.
#pragma once

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "collectives/builder.h"

namespace tutti::collectives {

class Blockwise {
 public:
  // Two ranks or more.
  Blockwise(std::int32_t ranks, std::int32_t blocks)
      : ranks_(ranks), blocks_(blocks), rounds_(ceil_log2(ranks)), skips_(std::size_t(rounds_) + 1, ranks) {
    for (std::int32_t k = rounds_; k-- > 0;) skips_[std::size_t(k)] = (skips_[std::size_t(k) + 1] + 1) / 2;
  }

  struct Message {
    std::int32_t peer;  // from the root on; -1: none
    std::int32_t block;
  };
  // Calls use(sent, received) for each round of `rank`.
  template <class Use>
  void rounds(std::int32_t rank, const Use &use) const {
    TUTTI_CHECK(rounds_ > 0, "one rank has no rounds");
    const std::vector<std::int32_t> mine = received(rank);
    std::vector<std::int32_t> theirs;  // what the receiver at each distance gets at that distance
    theirs.reserve(std::size_t(rounds_));
    for (std::int32_t k = 0; k < rounds_; ++k)
      theirs.push_back(received(wrap(std::int64_t(rank) + skip(k), ranks_))[std::size_t(k)]);
    // The first phase begins so that the last one ends with its last round.
    const std::int32_t first = wrap(rounds_ - (blocks_ - 1) % rounds_, rounds_);
    std::int32_t offset = -first;
    for (std::int32_t round = first; round < blocks_ - 1 + rounds_ + first; ++round) {
      const std::int32_t k = round % rounds_;
      const std::int32_t to = wrap(std::int64_t(rank) + skip(k), ranks_);
      const auto message = [&](std::int32_t receiver, std::int32_t peer, std::int32_t block) {
        return Message{receiver == 0 || block < 0 ? -1 : peer, std::min(block, blocks_ - 1)};
      };
      use(message(to, to, theirs[std::size_t(k)] + offset),
          message(rank, wrap(std::int64_t(rank) - skip(k), ranks_), mine[std::size_t(k)] + offset));
      if (k == rounds_ - 1) offset += rounds_;
    }
  }

 private:
  std::int32_t skip(std::int32_t k) const { return skips_[std::size_t(k)]; }

  // A way from the root to this rank, or once around to it, for each round of a phase.
  struct Search {
    std::vector<std::int32_t> distances, found;
    std::int64_t target, limit;
  };
  void search(Search &state, std::int64_t from, std::int32_t largest) const {
    const std::vector<std::int32_t> candidates = state.distances;
    for (const std::int32_t e : candidates) {
      if (e > largest || std::find(state.distances.begin(), state.distances.end(), e) == state.distances.end())
        continue;
      auto k = std::int32_t(state.found.size());
      if (k == rounds_) return;
      const std::int64_t at = from + skip(e);
      if (at > state.target - skip(k) || at >= state.limit) continue;
      if (at <= state.target - skip(k + 1)) search(state, at, e);
      k = std::int32_t(state.found.size());
      if (k == rounds_ || from > state.target - skip(k + 1)) return;
      state.limit = at;
      state.found.push_back(e);
      std::erase(state.distances, e);
    }
  }

  // By round of a phase: the block that `rank` gets in the first phase; negative: one of a phase before.
  std::vector<std::int32_t> received(std::int32_t rank) const {
    // The first block that comes here is that of the smallest distance on the shortest way from the root.
    std::int32_t base = rounds_, rest = rank;
    for (std::int32_t k = rounds_; k-- > 0;) {
      if (rest < skip(k)) continue;
      rest -= skip(k);
      if (rest == 0) {
        base = k;
        break;
      }
    }
    Search state{{}, {}, std::int64_t(rank) + ranks_, 2 * std::int64_t(ranks_)};
    for (std::int32_t e = rounds_; e >= 0; --e)
      if (e != base) state.distances.push_back(e);
    search(state, 0, rounds_);
    for (std::int32_t &block : state.found) block = block == rounds_ ? base : block - rounds_;
    return state.found;
  }

  std::int32_t ranks_, blocks_, rounds_;
  std::vector<std::int32_t> skips_;
};

// Volume: each of the n blocks, which are given as the radix, comes to each other rank once, or from it.
inline std::uint64_t all_blocks_once(const Parameters &parameters) {
  return one_from_each_other(parameters) * std::uint64_t(parameters.radix);
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// The circulant pattern: rank r sees block (r + j) mod p as its view element j, and a round (high, low) moves view
// elements [low, high) between ranks at distance low. high - low never exceeds low, so what a round sends and what it
// receives are apart. A stretch of the view that passes the end of the vector is two ranges; both ends cut it alike,
// since they name the same blocks.
#pragma once

#include <algorithm>
#include <vector>

#include "collectives/builder.h"

namespace tutti::collectives {

struct CirculantRound {
  std::int32_t high, low;
};

// p = s0 > s1 = ceil(s0 / 2) > ... > 1, as pairs of neighbours.
inline std::vector<CirculantRound> circulant_rounds(std::int32_t ranks) {
  std::vector<CirculantRound> rounds;
  for (std::int32_t high = ranks; high > 1; high = (high + 1) / 2) rounds.push_back({high, (high + 1) / 2});
  return rounds;
}

// Calls use(first, blocks) for the one or two runs of blocks that are view elements [begin, end) of `rank`.
template <class Use>
void for_view(std::int32_t rank, std::int32_t ranks, std::int32_t begin, std::int32_t end, const Use &use) {
  if (begin >= end) return;
  const std::int32_t first = wrap(std::int64_t(rank) + begin, ranks), blocks = end - begin;
  const std::int32_t before_end = std::min(blocks, ranks - first);
  use(std::uint32_t(first), std::uint32_t(before_end));
  if (before_end < blocks) use(0u, std::uint32_t(blocks - before_end));
}

}  // namespace tutti::collectives

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

// Reduce-scatter: reads this rank's vector in `own`, reduces in `work` (which may be `own`), and leaves block `rank`
// in `result`. Two ranks or more.
inline void circulant_reduce_scatter(Builder &builder, std::int32_t rank, std::int32_t ranks, Buffer own, Buffer work,
                                     Range result) {
  const std::vector<CirculantRound> rounds = circulant_rounds(ranks);
  const auto view = [&](std::int32_t begin, std::int32_t end, const auto &use) {
    for_view(rank, ranks, begin, end, use);
  };
  // View elements below `reduced` are partial results from the first round on; those above are still `own` alone.
  const std::int32_t reduced = ranks - rounds.front().low;
  for (const CirculantRound &round : rounds) {
    const std::int32_t high = round.high, low = round.low;
    const bool first_round = high == ranks;
    const Buffer from = first_round || low >= reduced ? own : work;
    view(low, high, [&](std::uint32_t first, std::uint32_t blocks) {
      builder.send(wrap(rank + low, ranks), builder.part(from, first, blocks));
    });
    if (first_round && own != work && rounds.size() > 1 && rounds[1].low < reduced)
      // The next round sends these together with partial results; copying a block costs less than a second message.
      view(reduced, low, [&](std::uint32_t first, std::uint32_t blocks) {
        builder.copy(builder.part(own, first, blocks), builder.part(work, first, blocks));
      });
    view(0, high - low, [&](std::uint32_t first, std::uint32_t blocks) {
      builder.recv_reduce(wrap(rank - low, ranks), Side::left, builder.part(first_round ? own : work, first, blocks),
                          low == 1 ? result : builder.part(work, first, blocks));
    });
  }
}

// Allgather of what each rank has in its block of `work`.
inline void circulant_allgather(Builder &builder, std::int32_t rank, std::int32_t ranks, Buffer work) {
  const std::vector<CirculantRound> rounds = circulant_rounds(ranks);
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    for_view(rank, ranks, 0, round->high - round->low, [&](std::uint32_t first, std::uint32_t blocks) {
      builder.send(wrap(rank - round->low, ranks), builder.part(work, first, blocks));
    });
    for_view(rank, ranks, round->low, round->high, [&](std::uint32_t first, std::uint32_t blocks) {
      builder.recv(wrap(rank + round->low, ranks), builder.part(work, first, blocks));
    });
  }
}

}  // namespace tutti::collectives

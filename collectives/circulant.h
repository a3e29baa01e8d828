// SPDX-License-Identifier: BSD-3-Clause
//
// The circulant pattern: member r of a circle of p sees block (r + j) mod p as its view element j. Any falling list of
// skips p = s0 > s1 > ... > 1 is right: for neighbours (high, low) of it, view elements [a, a + low) below high move
// between members at distance a, for each multiple a of low. What a round sends and what it receives are apart. A
// stretch of the view that passes the end is two ranges; both ends cut it alike, since they name the same blocks.
#pragma once

#include <algorithm>
#include <vector>

#include "collectives/builder.h"

namespace tutti::collectives {

struct CirculantRound {
  std::int32_t high, low;
};

// p, ceil(p / radix), ..., 1, as pairs of neighbours: with radix p one round of all with all.
inline std::vector<CirculantRound> circulant_rounds(std::int32_t ranks, std::int32_t radix = 2) {
  std::vector<CirculantRound> rounds;
  for (std::int32_t high = ranks; high > 1; high = rounds.back().low)
    rounds.push_back({high, std::int32_t((std::int64_t(high) + radix - 1) / radix)});
  return rounds;
}

// Who takes part, and which blocks are theirs: block `first_block` + i is that of member i.
struct Circle {
  std::int32_t size;
  std::int32_t index;                      // of this rank
  std::vector<std::int32_t> members = {};  // their ranks; empty: member i is rank i
  std::uint32_t first_block = 0;
  std::int32_t radix = 2;

  std::int32_t peer(std::int64_t member) const {
    const std::int32_t wrapped = wrap(member, size);
    return members.empty() ? wrapped : members[std::size_t(wrapped)];
  }
};

// Calls use(first, blocks) for the one or two runs of blocks that are view elements [begin, end) of `rank`.
template <class Use>
void for_view(std::int32_t rank, std::int32_t ranks, std::int32_t begin, std::int32_t end, const Use &use) {
  if (begin >= end) return;
  const std::int32_t first = wrap(std::int64_t(rank) + begin, ranks), blocks = end - begin;
  const std::int32_t before_end = std::min(blocks, ranks - first);
  use(std::uint32_t(first), std::uint32_t(before_end));
  if (before_end < blocks) use(0u, std::uint32_t(blocks - before_end));
}

// The stretches of a round: calls use(begin, end) for view elements that one message moves, from the nearest on.
template <class Use>
void for_stretches(const CirculantRound &round, const Use &use) {
  for (std::int64_t begin = round.low; begin < round.high; begin += round.low)
    use(std::int32_t(begin), std::int32_t(std::min<std::int64_t>(begin + round.low, round.high)));
}

// Reduce-scatter: reads this member's vector in `own`, reduces in `work` (which may be `own`), and leaves its block in
// `result`. Two members or more. Each view element is reduced from the nearest sender on.
inline void circulant_reduce_scatter(Builder &builder, const Circle &circle, Buffer own, Buffer work, Range result) {
  const std::vector<CirculantRound> rounds = circulant_rounds(circle.size, circle.radix);
  const auto view = [&](Buffer buffer, std::int32_t begin, std::int32_t end, const auto &use) {
    for_view(circle.index, circle.size, begin, end, [&](std::uint32_t first, std::uint32_t blocks) {
      use(builder.part(buffer, circle.first_block + first, blocks));
    });
  };
  // View elements below `reduced` are partial results from the first round on; those above are still `own` alone.
  const std::int32_t reduced = std::min(rounds.front().low, circle.size - rounds.front().low);
  for (const CirculantRound &round : rounds) {
    const std::int32_t low = round.low;
    const bool first_round = round.high == circle.size;
    for_stretches(round, [&](std::int32_t begin, std::int32_t end) {
      const Buffer from = first_round || begin >= reduced ? own : work;
      view(from, begin, end,
           [&](Range range) { builder.send(circle.peer(std::int64_t(circle.index) + begin), range); });
    });
    if (first_round && own != work && rounds.size() > 1 && rounds[1].low < reduced)
      // The next round sends these together with partial results; copying a block costs less than a second message.
      view(own, reduced, low, [&](Range range) { builder.copy(range, {work, range.first, range.blocks}); });
    for_stretches(round, [&](std::int32_t begin, std::int32_t end) {
      const bool first_stretch = begin == low;
      view(work, 0, end - begin, [&](Range target) {
        Range source = target;
        if (first_round && first_stretch) source = {own, target.first, target.blocks};
        if (low == 1) target = result;
        if (low == 1 && !first_stretch) source = result;
        builder.recv_reduce(circle.peer(std::int64_t(circle.index) - begin), Side::left, source, target);
      });
    });
  }
}

// Allgather of what each member has in its block of `work`.
inline void circulant_allgather(Builder &builder, const Circle &circle, Buffer work) {
  const std::vector<CirculantRound> rounds = circulant_rounds(circle.size, circle.radix);
  const auto view = [&](std::int32_t begin, std::int32_t end, const auto &use) {
    for_view(circle.index, circle.size, begin, end, [&](std::uint32_t first, std::uint32_t blocks) {
      use(builder.part(work, circle.first_block + first, blocks));
    });
  };
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    for_stretches(*round, [&](std::int32_t begin, std::int32_t end) {
      view(0, end - begin, [&](Range range) { builder.send(circle.peer(std::int64_t(circle.index) - begin), range); });
    });
    for_stretches(*round, [&](std::int32_t begin, std::int32_t end) {
      view(begin, end, [&](Range range) { builder.recv(circle.peer(std::int64_t(circle.index) + begin), range); });
    });
  }
}

}  // namespace tutti::collectives

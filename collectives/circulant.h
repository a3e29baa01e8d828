// SPDX-License-Identifier: BSD-3-Clause
//
// The circulant pattern: member r of a circle of p sees block (r + j) mod p as its view element j. Any list of skips
// from 1 up to below p is right, taken from p down: for neighbours (high, low) of it, view elements [a, a + low) below
// high move between members at distance a, for each multiple a of low. What a round sends and what it receives are
// apart. A stretch of the view that passes the end is two ranges; both ends cut it alike, since they name the same
// blocks.
#pragma once

#include <algorithm>
#include <vector>

#include "collectives/builder.h"
#include "collectives/variant.h"

namespace tutti::collectives {

struct CirculantRound {
  std::int32_t high, low;
};

// p, ceil(p / radix), ..., 1, as pairs of neighbours: with radix p one round of all with all.
// Or, if a list of skips is given, those.
inline std::vector<CirculantRound> circulant_rounds(std::int32_t ranks, std::int32_t radix = 2,
                                                    std::span<const std::int32_t> skips = {}) {
  std::vector<CirculantRound> rounds;
  if (!skips.empty()) {
    TUTTI_CHECK(skips_fault(skips, ranks).empty(), "{} ranks: {}", ranks, skips_fault(skips, ranks));
    for (auto skip = skips.rbegin(); ranks > 1 && skip != skips.rend(); ++skip)
      rounds.push_back({rounds.empty() ? ranks : rounds.back().low, *skip});
    return rounds;
  }
  for (std::int32_t high = ranks; high > 1; high = rounds.back().low)
    rounds.push_back({high, std::int32_t((std::int64_t(high) + radix - 1) / radix)});
  return rounds;
}

inline bool supports_circulant(const Parameters &parameters) {
  return parameters.skips.empty() ? parameters.radix >= 2 : skips_fault(parameters.skips, parameters.ranks).empty();
}

// Who takes part, and which blocks are theirs: block `first_block` + i is that of member i.
struct Circle {
  std::int32_t size;
  std::int32_t index;                      // of this rank
  std::vector<std::int32_t> members = {};  // their ranks; empty: member i is rank i
  std::uint32_t first_block = 0;
  std::int32_t radix = 2;
  std::span<const std::int32_t> skips = {};

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
  const std::vector<CirculantRound> rounds = circulant_rounds(circle.size, circle.radix, circle.skips);
  const auto view = [&](Buffer buffer, std::int32_t begin, std::int32_t end, const auto &use) {
    for_view(circle.index, circle.size, begin, end, [&](std::uint32_t first, std::uint32_t blocks) {
      use(builder.part(buffer, circle.first_block + first, blocks));
    });
  };
  // View elements below `in_work` are partial results in `work`; those above are still `own` alone.
  std::int32_t in_work = own == work ? circle.size : 0;
  // One message, and one reduction, has one source: where it would have two, copying blocks costs less than a second.
  const auto bring = [&](std::int32_t end) {
    view(own, in_work, end, [&](Range range) { builder.copy(range, builder.part(work, range.first, range.blocks)); });
    in_work = std::max(in_work, end);
  };
  for (const CirculantRound &round : rounds) {
    for_stretches(round, [&](std::int32_t begin, std::int32_t end) {
      if (begin < in_work && in_work < end) bring(end);
    });
    for_stretches(round, [&](std::int32_t begin, std::int32_t end) {
      view(begin < in_work ? work : own, begin, end,
           [&](Range range) { builder.send(circle.peer(std::int64_t(circle.index) + begin), range); });
    });
    if (in_work != 0) bring(std::min(round.low, round.high - round.low));
    for_stretches(round, [&](std::int32_t begin, std::int32_t end) {
      const bool first_stretch = begin == round.low;
      view(work, 0, end - begin, [&](Range target) {
        Range source = target;
        if (in_work == 0) source = {own, target.first, target.blocks};
        if (round.low == 1) target = result;
        if (round.low == 1 && !first_stretch) source = result;
        builder.recv_reduce(circle.peer(std::int64_t(circle.index) - begin), Side::left, source, target);
      });
      in_work = std::max(in_work, end - begin);
    });
  }
}

// Allgather of what each member has in its block of `work`.
inline void circulant_allgather(Builder &builder, const Circle &circle, Buffer work) {
  const std::vector<CirculantRound> rounds = circulant_rounds(circle.size, circle.radix, circle.skips);
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

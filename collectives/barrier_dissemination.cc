// SPDX-License-Identifier: BSD-3-Clause
//
// k-dissemination: in round i each rank tells the ranks at distances j * k^i, j < k, that it and all it has heard of
// have come. The byte sent is made from the bytes received before, so that no send can run ahead of what it stands for.
// Two bytes alternate: one is sent while the other is made.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank, radix = parameters.radix;
  if (ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, 1);
  std::int32_t rounds = 0;
  for (std::int64_t reach = 1; reach < ranks; reach *= radix) ++rounds;
  Range current = builder.whole(Buffer::input);
  std::int64_t distance = 1;
  for (std::int32_t round = 0; round < rounds; ++round, distance *= radix) {
    const Range next = (rounds - round) % 2 == 1 ? builder.whole(Buffer::output) : builder.scratch();
    for (std::int64_t away = distance; away < distance * radix && away < ranks; away += distance)
      builder.send(wrap(rank + away, ranks), current);
    for (std::int64_t away = distance; away < distance * radix && away < ranks; away += distance) {
      builder.recv_reduce(wrap(rank - away, ranks), Side::right, current, next);
      current = next;
    }
  }
  return builder.take();
}

// Each digit of each distance is one message from each rank.
std::uint64_t volume(const Parameters &parameters) {
  std::uint64_t messages = 0;
  for (std::int64_t distance = 1; distance < parameters.ranks; distance *= parameters.radix)
    messages += std::min<std::int64_t>(parameters.radix - 1, (parameters.ranks - 1) / distance);
  return messages * parameters.ranks;
}

}  // namespace

Algorithm barrier_dissemination() {
  return {.collective = Collective::barrier,
          .name = "dissemination",
          .summary = "ceil(log_k p) rounds of k-1 messages of one byte",
          .source = "Hensgen, Finkel and Manber 1988; radix k as in UCC",
          .keeps_rank_order = false,
          .radices = {2, 4, 8},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = volume};
}

}  // namespace tutti::collectives

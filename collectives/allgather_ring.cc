// SPDX-License-Identifier: BSD-3-Clause
//
// Ring: each block travels once around, between neighbours. For large vectors.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  Builder builder(parameters, std::uint32_t(ranks));
  const std::int32_t left = wrap(rank - 1, ranks), right = wrap(rank + 1, ranks);
  const auto block = [&](std::int32_t index) { return builder.output(std::uint32_t(wrap(index, ranks))); };
  for (std::int32_t round = 0; round < ranks - 1; ++round) {
    builder.send(right, round == 0 && !builder.in_place() ? builder.input(0) : block(rank - round));
    builder.recv(left, block(rank - 1 - round));
  }
  if (!builder.in_place()) builder.copy(builder.input(0), block(rank));
  return builder.take();
}

Algorithm row(Collective collective) {
  return {.collective = collective,
          .name = "ring",
          .summary = "p-1 rounds, each rank sends m(p-1)/p to one neighbour; wins for large vectors",
          .source = "folklore",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = all_other_blocks};
}

}  // namespace

Algorithm allgather_ring() { return row(Collective::allgather); }
Algorithm allgatherv_ring() { return row(Collective::allgatherv); }

}  // namespace tutti::collectives

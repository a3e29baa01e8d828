// SPDX-License-Identifier: BSD-3-Clause
//
// Each rank writes its vector once, reduces its block of all of them in rank order, and writes the result once for all
// others to read: reduce-scatter and allgather as in Rabenseifner 2004, both direct. In all p times fewer elements are
// read than where everyone reads everything, for one round more.
#include "collectives/algorithms.h"
#include "collectives/rank_order.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  if (ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, std::uint32_t(ranks));
  const Buffer source = own_buffer(parameters);
  const Range own = builder.part(source, std::uint32_t(rank)), result = builder.output(std::uint32_t(rank));
  const auto peer_at = [&](std::int32_t distance) { return wrap(rank + distance, ranks); };
  for (std::int32_t distance = 1; distance < ranks; ++distance) {
    const std::int32_t peer = peer_at(distance);
    builder.send(peer, builder.part(source, std::uint32_t(peer)));
  }
  reduce_in_rank_order(builder, rank, ranks, own, result);
  for (std::int32_t distance = 1; distance < ranks; ++distance) builder.send(peer_at(distance), result);
  for (std::int32_t distance = 1; distance < ranks; ++distance) {
    const std::int32_t peer = peer_at(-distance);
    builder.recv(peer, builder.output(std::uint32_t(peer)));
  }
  return builder.take();
}

}  // namespace

Algorithm allreduce_board_blocks() {
  return {.collective = Collective::allreduce,
          .name = "board_blocks",
          .summary = "each rank reduces a block of what all others of the host have written; wins for several ranks",
          .source = "Rabenseifner 2004, both halves direct",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = reduce_scatter_allgather_blocks,
          .on_board = true};
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// Direct: everyone sends each block to the rank that it is for, which reduces in rank order, whatever the order of
// arrival. One round of p - 1 messages: for few ranks, small vectors, and operators that do not commute. On a board
// each writes its vector once.
#include "collectives/algorithms.h"
#include "collectives/rank_order.h"
#include "collectives/reduce_scatter.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  if (ranks == 1) return reduce_scatter_alone(parameters);
  Builder builder(parameters, std::uint32_t(ranks));
  const Range result = reduce_scatter_result(builder, parameters), own = builder.input(std::uint32_t(rank));
  for (std::int32_t distance = 1; distance < ranks; ++distance) {
    const std::int32_t peer = wrap(rank + distance, ranks);
    builder.send(peer, builder.input(std::uint32_t(peer)));
  }
  reduce_in_rank_order(builder, rank, ranks, own, result);
  return end_reduce_scatter(builder, result);
}

Algorithm row(Collective collective) {
  return {.collective = collective,
          .name = "direct",
          .summary = "1 round of p-1 messages, each rank sends m(p-1)/p; wins for few ranks and small vectors",
          .source = "folklore; order of reduction fixed to rank order",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = all_other_blocks};
}

Algorithm board_row(Collective collective) {
  return on_board(row(collective), "each rank writes its vector once, all others of the host read their blocks there");
}

}  // namespace

Algorithm reduce_scatter_block_direct() { return row(Collective::reduce_scatter_block); }
Algorithm reduce_scatter_block_board() { return board_row(Collective::reduce_scatter_block); }
Algorithm reduce_scatter_direct() { return row(Collective::reduce_scatter); }
Algorithm reduce_scatter_board() { return board_row(Collective::reduce_scatter); }

}  // namespace tutti::collectives

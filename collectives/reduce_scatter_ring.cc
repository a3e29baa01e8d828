// SPDX-License-Identifier: BSD-3-Clause
//
// Ring: the first half of allreduce_ring.cc. Block b starts at rank b + 1 and is finished at rank b; all traffic is
// between neighbours. For large vectors and few ranks.
#include "collectives/algorithms.h"
#include "collectives/reduce_scatter.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  if (ranks == 1) return reduce_scatter_alone(parameters);
  Builder builder(parameters, std::uint32_t(ranks));
  const std::int32_t left = wrap(rank - 1, ranks), right = wrap(rank + 1, ranks);
  const auto index = [&](std::int32_t block) { return std::uint32_t(wrap(block, ranks)); };
  const Range result = reduce_scatter_result(builder, parameters);
  for (std::int32_t round = 0; round < ranks - 1; ++round) {
    builder.send(right,
                 round == 0 ? builder.input(index(rank - 1)) : builder.scratch_blocks(0, index(rank - 1 - round)));
    const std::uint32_t block = index(rank - 2 - round);
    builder.recv_reduce(left, Side::left, builder.input(block),
                        round == ranks - 2 ? result : builder.scratch_blocks(0, block));
  }
  return end_reduce_scatter(builder, result);
}

Algorithm row(Collective collective) {
  return {.collective = collective,
          .name = "ring",
          .summary = "p-1 rounds, each rank sends m(p-1)/p to one neighbour; wins for large vectors and few ranks",
          .source = "Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009",
          .keeps_rank_order = false,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = all_other_blocks};
}

}  // namespace

Algorithm reduce_scatter_block_ring() { return row(Collective::reduce_scatter_block); }
Algorithm reduce_scatter_ring() { return row(Collective::reduce_scatter); }

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// Direct: everyone sends each block to the rank that it is for, which reduces in rank order, whatever the order of
// arrival. One round of p - 1 messages: for few ranks, small vectors, and operators that do not commute.
#include "collectives/algorithms.h"
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
  std::int32_t next = rank + 1;
  if (rank == 0) {
    builder.recv_reduce(next++, Side::right, own, result);
  } else if (rank == 1) {
    builder.recv_reduce(0, Side::left, own, result);
  } else {
    builder.recv(0, result);
    for (std::int32_t peer = 1; peer < rank; ++peer) builder.recv_reduce(peer, Side::right, result, result);
    builder.reduce(Side::right, own, result);
  }
  for (; next < ranks; ++next) builder.recv_reduce(next, Side::right, result, result);
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

}  // namespace

Algorithm reduce_scatter_block_direct() { return row(Collective::reduce_scatter_block); }
Algorithm reduce_scatter_direct() { return row(Collective::reduce_scatter); }

}  // namespace tutti::collectives

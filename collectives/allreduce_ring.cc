// SPDX-License-Identifier: BSD-3-Clause
//
// Ring: p blocks travel once around being reduced, and once more being copied. Block b starts at rank b + 1 and is
// finished at rank b, in one place, so all ranks get the same bits. The least volume, from one neighbour to one other:
// for large vectors.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  if (ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, std::uint32_t(ranks));
  const std::int32_t left = wrap(rank - 1, ranks), right = wrap(rank + 1, ranks);
  const Buffer own = own_buffer(parameters);
  const auto block = [&](Buffer buffer, std::int32_t index) {
    return Range{buffer, std::uint32_t(wrap(index, ranks)), 1};
  };
  // Every block that arrives here meets this rank's contribution for the first time: no copy of the input is needed.
  for (std::int32_t round = 0; round < ranks - 1; ++round) {
    builder.send(right, block(round == 0 ? own : Buffer::output, rank - 1 - round));
    builder.recv_reduce(left, Side::left, block(own, rank - 2 - round), block(Buffer::output, rank - 2 - round));
  }
  for (std::int32_t round = 0; round < ranks - 1; ++round) {
    builder.send(right, block(Buffer::output, rank - round));
    builder.recv(left, block(Buffer::output, rank - 1 - round));
  }
  return builder.take();
}

}  // namespace

Algorithm allreduce_ring() {
  return {.collective = Collective::allreduce,
          .name = "ring",
          .summary = "2(p-1) rounds, each rank sends 2m(p-1)/p to one neighbour; wins for large vectors and few ranks",
          .source = "Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009",
          .keeps_rank_order = false,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = reduce_scatter_allgather_blocks};
}

}  // namespace tutti::collectives

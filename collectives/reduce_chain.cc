// SPDX-License-Identifier: BSD-3-Clause
//
// Chain: each rank adds its vector to what comes from the next one and hands it on towards the root. One block is
// enough to pipeline, since the executor streams. For very large vectors.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  if (ranks == 1) return vector_alone(parameters);
  const std::int32_t distance = wrap(std::int64_t(rank) - parameters.root, ranks);
  Builder builder(parameters, 1);
  Range current = builder.whole(own_buffer(parameters));
  if (distance < ranks - 1) {
    const Range target = distance == 0 ? builder.whole(Buffer::output) : builder.scratch();
    builder.recv_reduce(wrap(rank + 1, ranks), Side::right, current, target);
    current = target;
  }
  if (distance > 0) builder.send(wrap(rank - 1, ranks), current);
  return builder.take();
}

}  // namespace

Algorithm reduce_chain() {
  return {.collective = Collective::reduce,
          .name = "chain",
          .summary = "p-1 hops, streamed, (p-1)m in all and m per rank; wins for very large vectors",
          .source = "folklore; pipelined by the executor",
          .keeps_rank_order = false,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = one_from_each_other};
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// Direct: everyone sends its vector to everyone and reduces all of them strictly in rank order, whatever the order of
// arrival, so all ranks get the same bits. One round of p - 1 messages: the least latency for few ranks and tiny
// vectors. On a board each writes once.
#include "collectives/algorithms.h"
#include "collectives/rank_order.h"

namespace tutti::collectives {
namespace {

// p - 1 messages of the whole vector per rank: far past the point where anything else is faster.
constexpr std::int32_t kMaxRanks = 64;

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  if (ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, 1);
  const Range output = builder.whole(Buffer::output), own = builder.whole(own_buffer(parameters));
  // Each starts with its right neighbour, so that no rank is everyone's first target.
  for (std::int32_t distance = 1; distance < ranks; ++distance) builder.send(wrap(rank + distance, ranks), own);
  // In place, sends that wait for their receiver would hold the output that the receiver's own send waits for: what
  // arrives is reduced beside it.
  const Range into = parameters.in_place ? builder.scratch() : output;
  reduce_in_rank_order(builder, rank, ranks, own, into);
  if (parameters.in_place) builder.copy(into, output);
  return builder.take();
}

}  // namespace

Algorithm allreduce_direct() {
  return {.collective = Collective::allreduce,
          .name = "direct",
          .summary = "1 round of p-1 messages, each rank sends (p-1)m; wins for tiny vectors and few ranks",
          .source = "folklore; order of reduction fixed to rank order",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = [](const Parameters &parameters) { return parameters.ranks <= kMaxRanks; },
          .build = build,
          .volume_blocks = all_other_blocks};
}

Algorithm allreduce_board() {
  return on_board(allreduce_direct(), "each rank writes its vector once, all others of the host read it there");
}

}  // namespace tutti::collectives

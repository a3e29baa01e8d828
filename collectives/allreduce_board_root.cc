// SPDX-License-Identifier: BSD-3-Clause
//
// Each rank writes its vector once, rank 0 reduces all of them in rank order and writes the result once for all others
// to read. One rank does all the work, but nobody else has to have its turn in between: where ranks share cores that
// costs less than a second meeting of all.
#include "collectives/algorithms.h"
#include "collectives/rank_order.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  if (ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, 1);
  const Range own = builder.whole(own_buffer(parameters)), output = builder.whole(Buffer::output);
  if (rank != 0) {
    builder.send(0, own);
    builder.recv(0, output);
    return builder.take();
  }
  reduce_in_rank_order(builder, rank, ranks, own, output);
  for (std::int32_t peer = 1; peer < ranks; ++peer) builder.send(peer, output);
  return builder.take();
}

}  // namespace

Algorithm allreduce_board_root() {
  return {.collective = Collective::allreduce,
          .name = "board_root",
          .summary = "rank 0 reduces what all others of the host have written; wins for several ranks on a core",
          .source = "folklore",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = [](const Parameters &parameters) { return 2 * one_from_each_other(parameters); },
          .on_board = true};
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// Each rank writes once, the root reads it there and reduces in rank order. In messages it is a star.
#include "collectives/algorithms.h"
#include "collectives/rank_order.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  if (parameters.ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, 1);
  const Range own = builder.whole(own_buffer(parameters));
  if (parameters.rank != parameters.root) {
    builder.send(parameters.root, own);
    return builder.take();
  }
  reduce_in_rank_order(builder, parameters.rank, parameters.ranks, own, builder.whole(Buffer::output));
  return builder.take();
}

}  // namespace

Algorithm reduce_board() {
  return {.collective = Collective::reduce,
          .name = "board",
          .summary = "each rank writes once, the root reads it there and reduces in rank order",
          .source = "folklore",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = one_from_each_other,
          .on_board = true};
}

}  // namespace tutti::collectives

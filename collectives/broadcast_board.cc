// SPDX-License-Identifier: BSD-3-Clause
//
// The root writes once, where all other ranks of its host read. In messages it is a star.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, root = parameters.root;
  Builder builder(parameters, 1);
  const Range all = builder.whole(Buffer::output);
  if (parameters.rank != root) builder.recv(root, all);
  else
    for (std::int32_t distance = 1; distance < ranks; ++distance) builder.send(wrap(root + distance, ranks), all);
  return builder.take();
}

}  // namespace

Algorithm broadcast_board() {
  return {.collective = Collective::broadcast,
          .name = "board",
          .summary = "the root writes once, all others of the host read it there; wins up to 256 KiB",
          .source = "folklore; shared memory broadcasts as in Graham and Shipman 2008",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = one_from_each_other,
          .on_board = true};
}

}  // namespace tutti::collectives

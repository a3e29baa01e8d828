// SPDX-License-Identifier: BSD-3-Clause
//
// Direct: the root sends each rank its block. One round, and the least volume; with counts by rank the only way, since
// nobody between the root and a rank could know how much there is to pass on.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank, root = parameters.root;
  Builder builder(parameters, std::uint32_t(ranks));
  if (rank != root) {
    builder.recv(root, builder.output(0));
    return builder.take();
  }
  for (std::int32_t distance = 1; distance < ranks; ++distance) {
    const std::int32_t peer = wrap(rank + distance, ranks);
    builder.send(peer, builder.input(std::uint32_t(peer)));
  }
  if (!builder.in_place()) builder.copy(builder.input(std::uint32_t(rank)), builder.output(0));
  return builder.take();
}

Algorithm row(Collective collective) {
  return {.collective = collective,
          .name = "direct",
          .summary = "1 round of p-1 messages from the root, (p-1)/p of the whole in all; wins for large blocks",
          .source = "folklore",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = one_from_each_other};
}

}  // namespace

Algorithm scatter_direct() { return row(Collective::scatter); }
Algorithm scatterv_direct() { return row(Collective::scatterv); }

}  // namespace tutti::collectives

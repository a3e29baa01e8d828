// SPDX-License-Identifier: BSD-3-Clause
//
// Direct: each rank sends its block to the root. One round, and the least volume; with counts by rank the only way,
// since nobody between a rank and the root could know how much there is to pass on.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank, root = parameters.root;
  Builder builder(parameters, std::uint32_t(ranks));
  if (rank != root) {
    builder.send(root, builder.input(0));
    return builder.take();
  }
  if (!builder.in_place()) builder.copy(builder.input(0), builder.output(std::uint32_t(rank)));
  for (std::int32_t distance = 1; distance < ranks; ++distance) {
    const std::int32_t peer = wrap(rank + distance, ranks);
    builder.recv(peer, builder.output(std::uint32_t(peer)));
  }
  return builder.take();
}

Algorithm row(Collective collective) {
  return {.collective = collective,
          .name = "direct",
          .summary = "1 round of p-1 messages to the root, (p-1)/p of the whole in all; wins for large blocks",
          .source = "folklore",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = one_from_each_other};
}

}  // namespace

Algorithm gather_direct() { return row(Collective::gather); }
Algorithm gatherv_direct() { return row(Collective::gatherv); }

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// Direct: everyone sends its block to everyone. One round of p - 1 messages: the least latency for few ranks.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  Builder builder(parameters, std::uint32_t(ranks));
  const Range own = builder.in_place() ? builder.output(std::uint32_t(rank)) : builder.input(0);
  // Each starts with its right neighbour, so that no rank is everyone's first target.
  for (std::int32_t distance = 1; distance < ranks; ++distance) builder.send(wrap(rank + distance, ranks), own);
  if (!builder.in_place()) builder.copy(own, builder.output(std::uint32_t(rank)));
  for (std::int32_t distance = 1; distance < ranks; ++distance) {
    const std::int32_t peer = wrap(rank - distance, ranks);
    builder.recv(peer, builder.output(std::uint32_t(peer)));
  }
  return builder.take();
}

Algorithm row(Collective collective) {
  return {.collective = collective,
          .name = "direct",
          .summary = "1 round of p-1 messages, each rank sends m(p-1)/p; wins for few ranks",
          .source = "folklore",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = all_other_blocks};
}

}  // namespace

Algorithm allgather_direct() { return row(Collective::allgather); }
Algorithm allgather_board() {
  return on_board(allgather_direct(), "each rank writes its block once, all others of the host read it there");
}
Algorithm allgatherv_direct() { return row(Collective::allgatherv); }

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// Direct: everyone sends everyone its block, at distance 1, 2, ... so that at any time each rank is the target of one
// other. The least volume: for all but small blocks, and with counts by rank the only way. In place a block may only be
// overwritten once it is sent, and with sends that wait for their receiver nobody could begin: they go out of a copy.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  Builder builder(parameters, std::uint32_t(ranks));
  const auto block = [&](std::int32_t index) { return std::uint32_t(wrap(index, ranks)); };
  const bool in_place = builder.in_place();
  const auto source = [&](std::uint32_t index) {
    return in_place ? builder.scratch_blocks(0, index) : builder.input(index);
  };
  if (!in_place) builder.copy(builder.input(block(rank)), builder.output(block(rank)));
  // Block by block, since there may be gaps between them.
  for (std::int32_t distance = 1; in_place && distance < ranks; ++distance)
    builder.copy(builder.output(block(rank + distance)), source(block(rank + distance)));
  for (std::int32_t distance = 1; distance < ranks; ++distance) {
    builder.send(wrap(rank + distance, ranks), source(block(rank + distance)));
    builder.recv(wrap(rank - distance, ranks), builder.output(block(rank - distance)));
  }
  return builder.take();
}

Algorithm row(Collective collective) {
  return {.collective = collective,
          .name = "direct",
          .summary = "p-1 messages, each rank sends m(p-1)/p; wins for all but small blocks",
          .source = "folklore",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = all_other_blocks};
}

}  // namespace

Algorithm alltoall_direct() { return row(Collective::alltoall); }
Algorithm alltoallv_direct() { return row(Collective::alltoallv); }

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// Direct: everyone sends everyone its block, at distance 1, 2, ... so that at any time each rank is the target of one
// other. The least volume: for all but small blocks, and with counts by rank the only way. In place a block may only be
// overwritten once it is sent, and with sends that wait for their receiver nobody could begin: they go out of a copy.
//
// `throttled` sends at distance d once it has the block of distance d - window, so that a rank has at most `window`
// messages more under way than it has received, and no rank runs far ahead into another's receive buffers.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build_throttled(const Parameters &parameters, std::int32_t window) {
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
  const std::int32_t first = builder.steps();
  for (std::int32_t distance = 1; distance < ranks; ++distance) {
    // A send and a receive for each distance.
    const std::int32_t after = distance > window ? first + 2 * (distance - window) - 1 : -1;
    builder.send(wrap(rank + distance, ranks), source(block(rank + distance)), after);
    builder.recv(wrap(rank - distance, ranks), builder.output(block(rank - distance)));
  }
  return builder.take();
}

Schedule build(const Parameters &parameters) { return build_throttled(parameters, parameters.ranks); }
Schedule build_windowed(const Parameters &parameters) { return build_throttled(parameters, parameters.radix); }

bool supports_window(const Parameters &parameters) { return parameters.radix >= 1; }

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

Algorithm throttled_row(Collective collective) {
  return {.collective = collective,
          .name = "throttled",
          .summary =
              "as direct, with up to k messages under way: ceil((p-1)/k) rounds; for many ranks that would crowd "
              "each other",
          .source = "folklore; MPICH's throttled scattered alltoall",
          .keeps_rank_order = true,
          .radices = {32, 8, 4, 1},
          .supports = supports_window,
          .build = build_windowed,
          .volume_blocks = all_other_blocks,
          .radix_name = "window"};
}

}  // namespace

Algorithm alltoall_direct() { return row(Collective::alltoall); }
Algorithm alltoallv_direct() { return row(Collective::alltoallv); }
Algorithm alltoall_throttled() { return throttled_row(Collective::alltoall); }
Algorithm alltoallv_throttled() { return throttled_row(Collective::alltoallv); }

}  // namespace tutti::collectives

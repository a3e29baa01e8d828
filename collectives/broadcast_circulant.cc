// SPDX-License-Identifier: BSD-3-Clause
//
// Circulant pipeline (blockwise.h): n blocks, each sent once to every rank, in the least number of rounds. For large
// vectors and many ranks.
#include "collectives/algorithms.h"
#include "collectives/blockwise.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, blocks = parameters.radix;
  Builder builder(parameters, std::uint32_t(blocks));
  if (ranks == 1) return builder.take();
  const auto real = [&](std::int32_t distance) { return wrap(std::int64_t(distance) + parameters.root, ranks); };
  Blockwise(ranks, blocks)
      .rounds(wrap(std::int64_t(parameters.rank) - parameters.root, ranks),
              [&](Blockwise::Message sent, Blockwise::Message received) {
                if (sent.peer >= 0) builder.send(real(sent.peer), builder.output(std::uint32_t(sent.block)));
                if (received.peer >= 0)
                  builder.recv(real(received.peer), builder.output(std::uint32_t(received.block)));
              });
  return builder.take();
}

}  // namespace

Algorithm broadcast_circulant() {
  return {.collective = Collective::broadcast,
          .name = "circulant",
          .summary = "n-1 + ceil(log2 p) rounds of m/n; wins for large vectors, many ranks",
          .source = "Traff, round-optimal n-block broadcast schedules, arXiv 2312.11236 and 2407.18004",
          .keeps_rank_order = true,
          .radices = {2, 16, 64},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = all_blocks_once,
          .radix_name = "blocks"};
}

}  // namespace tutti::collectives

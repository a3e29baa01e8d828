// SPDX-License-Identifier: BSD-3-Clause
//
// Circulant pipeline: the rounds of broadcast_circulant.cc, backwards. A rank sends on a block when all that it would
// have given it to have sent theirs. For large vectors and many ranks.

#include "collectives/algorithms.h"
#include "collectives/blockwise.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, blocks = parameters.radix;
  if (ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, std::uint32_t(blocks));
  const auto real = [&](std::int32_t distance) { return wrap(std::int64_t(distance) + parameters.root, ranks); };
  std::vector<std::pair<Blockwise::Message, Blockwise::Message>> rounds;
  Blockwise(ranks, blocks)
      .rounds(wrap(std::int64_t(parameters.rank) - parameters.root, ranks),
              [&](Blockwise::Message sent, Blockwise::Message received) { rounds.emplace_back(sent, received); });
  const Buffer own = own_buffer(parameters),
               work = parameters.rank == parameters.root ? Buffer::output : Buffer::scratch;
  std::vector<Buffer> now(std::size_t(blocks), own);  // where what this rank has of a block is
  for (std::size_t round = rounds.size(); round-- > 0;) {
    const auto &[receives, sends] = rounds[round];
    if (sends.peer >= 0)
      builder.send(real(sends.peer), builder.part(now[std::size_t(sends.block)], std::uint32_t(sends.block)));
    if (receives.peer < 0) continue;
    Buffer &at = now[std::size_t(receives.block)];
    builder.recv_reduce(real(receives.peer), Side::right, builder.part(at, std::uint32_t(receives.block)),
                        builder.part(work, std::uint32_t(receives.block)));
    at = work;
  }
  return builder.take();
}

}  // namespace

Algorithm reduce_circulant() {
  return {.collective = Collective::reduce,
          .name = "circulant",
          .summary = "n-1 + ceil(log2 p) rounds of m/n; wins for large vectors, many ranks",
          .source = "as broadcast circulant, reversed",
          .keeps_rank_order = false,
          .radices = {2, 16, 64},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = all_blocks_once,
          .radix_name = "blocks"};
}

}  // namespace tutti::collectives

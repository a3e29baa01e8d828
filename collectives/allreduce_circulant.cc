// SPDX-License-Identifier: BSD-3-Clause
//
// Circulant: reduce-scatter then allgather over distances that halve, for any number of ranks. The volume of a ring in
// a logarithmic number of rounds; each block is finished in one place, so all ranks get the same bits. For middle and
// large vectors.
#include "collectives/algorithms.h"
#include "collectives/circulant.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  if (ranks == 1) return allreduce_alone(parameters);
  Builder builder(ranks);
  const std::vector<CirculantRound> rounds = circulant_rounds(ranks);
  const Buffer own = own_buffer(parameters);
  const auto view = [&](std::int32_t begin, std::int32_t end, const auto &use) {
    for_view(rank, ranks, begin, end, use);
  };

  // View elements below `reduced` are partial results in the output from the first round on; those above are still the
  // input alone.
  const std::int32_t reduced = ranks - rounds.front().low;
  for (const CirculantRound &round : rounds) {
    const std::int32_t high = round.high, low = round.low;
    const bool first_round = high == ranks;
    const Buffer from = first_round || low >= reduced ? own : Buffer::output;
    view(low, high, [&](std::uint32_t first, std::uint32_t blocks) {
      builder.send(wrap(rank + low, ranks), {from, first, blocks});
    });
    if (first_round && own != Buffer::output && rounds.size() > 1 && rounds[1].low < reduced)
      // The next round sends these together with partial results; copying a block costs less than a second message.
      view(reduced, low, [&](std::uint32_t first, std::uint32_t blocks) {
        builder.copy({own, first, blocks}, builder.output(first, blocks));
      });
    view(0, high - low, [&](std::uint32_t first, std::uint32_t blocks) {
      const Range source{first_round ? own : Buffer::output, first, blocks};
      builder.recv_reduce(wrap(rank - low, ranks), Side::left, source, builder.output(first, blocks));
    });
  }
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    view(0, round->high - round->low, [&](std::uint32_t first, std::uint32_t blocks) {
      builder.send(wrap(rank - round->low, ranks), builder.output(first, blocks));
    });
    view(round->low, round->high, [&](std::uint32_t first, std::uint32_t blocks) {
      builder.recv(wrap(rank + round->low, ranks), builder.output(first, blocks));
    });
  }
  return builder.take();
}

}  // namespace

Algorithm allreduce_circulant() {
  return {.collective = Collective::allreduce,
          .name = "circulant",
          .summary = "2 ceil(log2 p) rounds, each rank sends 2m(p-1)/p, any p; wins for middle and large vectors",
          .source = "Traff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv 2410.14234",
          .keeps_rank_order = false,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = reduce_scatter_allgather_blocks};
}

}  // namespace tutti::collectives

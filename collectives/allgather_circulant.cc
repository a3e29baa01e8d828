// SPDX-License-Identifier: BSD-3-Clause
//
// Circulant: the second half of allreduce_circulant.cc. The least volume in a logarithmic number of rounds, for any
// number of ranks. Where the output has gaps (allgatherv) runs of blocks are no ranges, so it works in scratch and
// copies out.
#include "collectives/algorithms.h"
#include "collectives/circulant.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  Builder builder(parameters, std::uint32_t(ranks));
  const Range own = builder.output(std::uint32_t(rank));
  if (!builder.in_place()) builder.copy(builder.input(0), own);
  circulant_allgather(builder, {.size = ranks, .index = rank, .radix = parameters.radix, .skips = parameters.skips},
                      Buffer::output);
  return builder.take();
}

Schedule build_by_scratch(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  Builder builder(parameters, std::uint32_t(ranks));
  const Range own = builder.output(std::uint32_t(rank));
  if (!builder.in_place()) builder.copy(builder.input(0), own);
  if (ranks == 1) return builder.take();
  builder.copy(own, builder.scratch_blocks(0, std::uint32_t(rank)));
  circulant_allgather(builder, {.size = ranks, .index = rank, .radix = parameters.radix, .skips = parameters.skips},
                      Buffer::scratch);
  for (std::int32_t distance = 1; distance < ranks; ++distance) {
    const auto block = std::uint32_t(wrap(rank + distance, ranks));
    builder.copy(builder.scratch_blocks(0, block), builder.output(block));
  }
  return builder.take();
}

Algorithm row(Collective collective) {
  return {.collective = collective,
          .name = "circulant",
          .summary =
              "ceil(log_k p) rounds of up to k-1 messages, each rank sends m(p-1)/p, any p; wins for small and middle "
              "vectors",
          .source = "Traff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv 2410.14234",
          .keeps_rank_order = true,
          .radices = {2, 3, 4, 8},
          .supports = supports_circulant,
          .build = collective == Collective::allgather ? build : build_by_scratch,
          .volume_blocks = all_other_blocks,
          .takes_skips = true};
}

}  // namespace

Algorithm allgather_circulant() { return row(Collective::allgather); }
Algorithm allgatherv_circulant() { return row(Collective::allgatherv); }

}  // namespace tutti::collectives

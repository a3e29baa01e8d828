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
  if (ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, std::uint32_t(ranks));
  const Circle circle{.size = ranks, .index = rank, .radix = parameters.radix, .skips = parameters.skips};
  circulant_reduce_scatter(builder, circle, own_buffer(parameters), Buffer::output,
                           builder.output(std::uint32_t(rank)));
  circulant_allgather(builder, circle, Buffer::output);
  return builder.take();
}

}  // namespace

Algorithm allreduce_circulant() {
  return {.collective = Collective::allreduce,
          .name = "circulant",
          .summary =
              "2 ceil(log_k p) rounds of up to k-1 messages, each rank sends 2m(p-1)/p, any p; wins for middle and "
              "large vectors",
          .source = "Traff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv 2410.14234",
          .keeps_rank_order = false,
          .radices = {2, 3, 4, 8},
          .supports = supports_circulant,
          .build = build,
          .volume_blocks = reduce_scatter_allgather_blocks,
          .takes_skips = true};
}

}  // namespace tutti::collectives

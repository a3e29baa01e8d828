// SPDX-License-Identifier: BSD-3-Clause
//
// Circulant: the first half of allreduce_circulant.cc. The least volume in a logarithmic number of rounds, for any
// number of ranks and any counts. For all but the largest vectors.
#include "collectives/algorithms.h"
#include "collectives/circulant.h"
#include "collectives/reduce_scatter.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  if (parameters.ranks == 1) return reduce_scatter_alone(parameters);
  Builder builder(parameters, std::uint32_t(parameters.ranks));
  const Range result = reduce_scatter_result(builder, parameters);
  circulant_reduce_scatter(
      builder,
      {.size = parameters.ranks, .index = parameters.rank, .radix = parameters.radix, .skips = parameters.skips},
      Buffer::input, Buffer::scratch, result);
  return end_reduce_scatter(builder, result);
}

Algorithm row(Collective collective) {
  return {.collective = collective,
          .name = "circulant",
          .summary =
              "ceil(log_k p) rounds of up to k-1 messages, each rank sends m(p-1)/p, any p; wins for all but the "
              "largest vectors",
          .source = "Traff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv 2410.14234",
          .keeps_rank_order = false,
          .radices = {2, 3, 4, 8},
          .supports = supports_circulant,
          .build = build,
          .volume_blocks = all_other_blocks,
          .takes_skips = true};
}

}  // namespace

Algorithm reduce_scatter_block_circulant() { return row(Collective::reduce_scatter_block); }
Algorithm reduce_scatter_circulant() { return row(Collective::reduce_scatter); }

}  // namespace tutti::collectives

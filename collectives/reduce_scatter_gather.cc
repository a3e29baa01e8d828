// SPDX-License-Identifier: BSD-3-Clause
//
// Reduce-scatter, then gather: circulant rounds leave each rank one finished block, which it sends to the root. Each
// rank sends and reduces less than two vectors, whatever p. For large vectors.
#include "collectives/algorithms.h"
#include "collectives/circulant.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank, root = parameters.root;
  if (ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, std::uint32_t(ranks));
  const Buffer work = rank == root ? Buffer::output : Buffer::scratch;
  const Range finished = builder.part(work, std::uint32_t(rank));
  circulant_reduce_scatter(builder, rank, ranks, own_buffer(parameters), work, finished);
  if (rank != root) builder.send(root, finished);
  // Those that finish first are not the nearest ones: all finish in the last round. From the right neighbour on, as
  // everywhere.
  if (rank == root)
    for (std::int32_t distance = 1; distance < ranks; ++distance)
      builder.recv(wrap(root + distance, ranks), builder.output(std::uint32_t(wrap(root + distance, ranks))));
  return builder.take();
}

}  // namespace

Algorithm reduce_scatter_gather() {
  return {.collective = Collective::reduce,
          .name = "scatter_gather",
          .summary = "ceil(log2 p) rounds and one, each rank sends m, (p-1)(1+1/p)m in all; wins for large vectors",
          .source = "Rabenseifner 2004; reduce-scatter of arXiv 2410.14234",
          .keeps_rank_order = false,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = [](const Parameters &parameters) -> std::uint64_t {
            return all_other_blocks(parameters) + one_from_each_other(parameters);
          }};
}

}  // namespace tutti::collectives

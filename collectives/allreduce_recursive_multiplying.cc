// SPDX-License-Identifier: BSD-3-Clause
//
// Recursive multiplying, radix k (multiplying.h): fewer rounds for more messages at once: for small vectors.
#include <numeric>
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/multiplying.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  if (parameters.ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, 1);
  std::vector<std::int32_t> ranks(std::size_t(parameters.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  multiply(builder, ranks, parameters.rank, parameters.radix, builder.whole(own_buffer(parameters)));
  return builder.take();
}

std::uint64_t volume(const Parameters &parameters) {
  return MultiplyingGroup(parameters.ranks, parameters.radix).volume();
}

}  // namespace

Algorithm allreduce_recursive_multiplying() {
  return {.collective = Collective::allreduce,
          .name = "recursive_multiplying",
          .summary = "about log_k p rounds of k-1 messages of m, +2 if p has a factor above k; wins for small vectors",
          .source = "Ruefenacht, Bull and Booth, Generalisation of recursive doubling for allreduce, 2017",
          .keeps_rank_order = true,
          .radices = {2, 3, 4, 8},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = volume};
}

}  // namespace tutti::collectives

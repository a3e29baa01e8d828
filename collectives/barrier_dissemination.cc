// SPDX-License-Identifier: BSD-3-Clause
//
// k-dissemination (dissemination.h) among all ranks.
#include <numeric>

#include "collectives/algorithms.h"
#include "collectives/dissemination.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  if (parameters.ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, 1);
  std::vector<std::int32_t> members(std::size_t(parameters.ranks));
  std::iota(members.begin(), members.end(), 0);
  disseminate(builder, members, parameters.rank, parameters.radix, builder.whole(Buffer::input));
  return builder.take();
}

std::uint64_t volume(const Parameters &parameters) {
  return dissemination_messages(parameters.ranks, parameters.radix);
}

}  // namespace

Algorithm barrier_dissemination() {
  return {.collective = Collective::barrier,
          .name = "dissemination",
          .summary = "ceil(log_k p) rounds of k-1 messages of eight bytes",
          .source = "Hensgen, Finkel and Manber 1988; radix k as in UCC",
          .keeps_rank_order = false,
          .radices = {2, 4, 8},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = volume};
}

}  // namespace tutti::collectives

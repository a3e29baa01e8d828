// SPDX-License-Identifier: BSD-3-Clause
//
// Each rank writes that it has come, and reads it of all others of its host. In messages it is dissemination in one
// round.
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
  disseminate(builder, members, parameters.rank, parameters.ranks, builder.whole(Buffer::input));
  return builder.take();
}

}  // namespace

Algorithm barrier_board() {
  return {.collective = Collective::barrier,
          .name = "board",
          .summary = "each rank writes once that it has come, and reads it of all others of the host",
          .source = "folklore",
          .keeps_rank_order = false,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = all_other_blocks,
          .on_board = true};
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// k-dissemination (dissemination.h) among all ranks; on a board in one round.
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

Schedule build_round(const Parameters &parameters) {
  Parameters at_once = parameters;
  at_once.radix = parameters.ranks;
  return build(at_once);
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

Algorithm barrier_board() {
  Algorithm board = on_board(barrier_dissemination(),
                             "each rank writes once that it has come, and reads it of all others of the host");
  board.source = "folklore";
  board.radices = {0};
  board.supports = supports_all;
  board.build = build_round;
  board.volume_blocks = all_other_blocks;
  return board;
}

}  // namespace tutti::collectives

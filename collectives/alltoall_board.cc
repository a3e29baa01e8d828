// SPDX-License-Identifier: BSD-3-Clause
//
// Each rank writes its vector once, and reads its blocks of all others of its host. In messages it is `direct`, but
// that in place what arrives waits beside what is sent.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  Builder builder(parameters, std::uint32_t(ranks));
  const bool in_place = builder.in_place();
  const auto peer_at = [&](std::int32_t distance) { return std::uint32_t(wrap(rank + distance, ranks)); };
  const auto target = [&](std::uint32_t peer) {
    return in_place ? builder.scratch_blocks(0, peer) : builder.output(peer);
  };
  for (std::int32_t distance = 1; distance < ranks; ++distance) {
    const std::uint32_t peer = peer_at(distance);
    builder.send(std::int32_t(peer), in_place ? builder.output(peer) : builder.input(peer));
  }
  if (!in_place) builder.copy(builder.input(peer_at(0)), builder.output(peer_at(0)));
  for (std::int32_t distance = 1; distance < ranks; ++distance)
    builder.recv(std::int32_t(peer_at(-distance)), target(peer_at(-distance)));
  for (std::int32_t distance = 1; in_place && distance < ranks; ++distance)
    builder.copy(target(peer_at(-distance)), builder.output(peer_at(-distance)));
  return builder.take();
}

}  // namespace

Algorithm alltoall_board() {
  Algorithm board =
      on_board(alltoall_direct(), "each rank writes its vector once, all others of the host read their blocks there");
  board.build = build;
  return board;
}

}  // namespace tutti::collectives

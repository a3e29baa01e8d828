// SPDX-License-Identifier: BSD-3-Clause
//
// k-nomial tree: write the distance from the root in base k; the parent of a rank has its lowest non-zero digit
// cleared. With a radix of at least p it is a star, which is what a board takes; with 2 the binomial tree. For small
// and middle vectors.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, radix = parameters.radix;
  const std::int32_t distance = wrap(std::int64_t(parameters.rank) - parameters.root, ranks);
  const auto real = [&](std::int64_t virtual_rank) { return wrap(virtual_rank + parameters.root, ranks); };
  Builder builder(parameters, 1);
  const Range all = builder.whole(Buffer::output);

  // The place value of the lowest non-zero digit; on the root, the first power of the radix not below `ranks`.
  std::int64_t place = 1;
  while (place < ranks && distance % (place * radix) == 0) place *= radix;
  if (distance != 0) builder.recv(real(distance - distance / place % radix * place), all);
  // The deepest subtrees first: they have the longest way to go.
  for (place /= radix; place > 0; place /= radix)
    for (std::int64_t child = distance + place; child < distance + place * radix && child < ranks; child += place)
      builder.send(real(child), all);
  return builder.take();
}

Schedule build_star(const Parameters &parameters) {
  Parameters star = parameters;
  star.radix = std::max(2, parameters.ranks);
  return build(star);
}

}  // namespace

Algorithm broadcast_knomial() {
  return {.collective = Collective::broadcast,
          .name = "knomial",
          .summary = "ceil(log_k p) rounds of up to k-1 messages, (p-1)m in all; wins for small and middle vectors",
          .source = "folklore; k-nomial as in MPICH and UCC",
          .keeps_rank_order = true,
          .radices = {2, 4, 8},
          .supports = [](const Parameters &parameters) { return parameters.radix >= 2; },
          .build = build,
          .volume_blocks = [](const Parameters &parameters) -> std::uint64_t { return parameters.ranks - 1; }};
}

Algorithm broadcast_board() {
  Algorithm board = on_board(broadcast_knomial(), "the root writes once, all others of the host read it there");
  board.source = "folklore; shared memory broadcasts as in Graham and Shipman 2008";
  board.radices = {0};
  board.supports = supports_all;
  board.build = build_star;
  return board;
}

}  // namespace tutti::collectives

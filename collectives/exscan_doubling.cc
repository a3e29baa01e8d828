// SPDX-License-Identifier: BSD-3-Clause
//
// 1-2-3 doubling: the first round moves each rank's own vector one rank up, the second that and its own together two
// ranks up, so that every rank holds the result over the three ranks below it; from then on distances double. One round
// less than an inclusive scan that is shifted. Rank 0 has no result: its output stays as it is.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

// The distances of the rounds: 1, 2, 3, 6, 12, ...
template <class Use>
void for_distances(std::int32_t ranks, const Use &use) {
  if (ranks > 1) use(1);
  if (ranks > 2) use(2);
  for (std::int64_t distance = 3; distance < ranks - 1; distance *= 2) use(std::int32_t(distance));
}

// Rank 0 has nothing to give after the second round.
bool receives_at(std::int32_t rank, std::int32_t distance) {
  return distance <= 2 ? rank >= distance : rank - distance >= 1;
}

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  Builder builder(parameters, 1);
  const Range output = builder.whole(Buffer::output);
  Range own = builder.whole(own_buffer(parameters));
  std::int32_t receives = 0;
  for_distances(ranks, [&](std::int32_t distance) { receives += receives_at(rank, distance) ? 1 : 0; });
  if (builder.in_place() && rank > 0 && rank + 1 < ranks) {
    // What this rank gives is still needed when the result comes to its place.
    const Range kept = builder.scratch(2);
    builder.copy(own, kept);
    own = kept;
  }
  const auto target = [&](std::int32_t receive) { return (receives - receive) % 2 == 1 ? output : builder.scratch(0); };
  Range result;  // so far
  std::int32_t received = 0;
  for_distances(ranks, [&](std::int32_t distance) {
    const std::int32_t up = rank + distance;
    if (distance == 1 && up < ranks) builder.send(up, own);
    if (distance == 2 && up < ranks && rank == 0) builder.send(up, own);
    if (distance == 2 && up < ranks && rank > 0) {
      const Range both = builder.scratch(1);
      builder.copy(result, both);
      builder.reduce(Side::right, own, both);
      builder.send(up, both);
    }
    if (distance > 2 && up < ranks && rank > 0) builder.send(up, result);
    if (!receives_at(rank, distance)) return;
    const Range next = target(received++);
    if (distance == 1) builder.recv(rank - 1, next);
    else builder.recv_reduce(rank - distance, Side::left, result, next);
    result = next;
  });
  return builder.take();
}

}  // namespace

Algorithm exscan_doubling() {
  return {.collective = Collective::exscan,
          .name = "doubling",
          .summary = "ceil(log2(p-1) + log2(4/3)) rounds of m",
          .source = "Traff, 1-2-3 doubling, arXiv 2507.04785",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = [](const Parameters &parameters) -> std::uint64_t {
            std::uint64_t messages = 0;
            for_distances(parameters.ranks, [&](std::int32_t distance) {
              messages += std::uint64_t(parameters.ranks - distance - (distance > 2 ? 1 : 0));
            });
            return messages;
          }};
}

}  // namespace tutti::collectives

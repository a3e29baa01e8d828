// SPDX-License-Identifier: BSD-3-Clause
//
// Doubling: before round i a rank holds the result over the 2^i ranks up to itself; it sends that 2^i ranks up and puts
// what comes from 2^i ranks below before it. Two vectors alternate, since one is sent while the next is made.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  Builder builder(parameters, 1);
  const Range output = builder.whole(Buffer::output), own = builder.whole(own_buffer(parameters));
  std::int32_t receives = 0;
  while ((std::int64_t{1} << receives) <= rank) ++receives;
  // The last one leaves its result in the output.
  const auto target = [&](std::int32_t receive) { return (receives - receive) % 2 == 1 ? output : builder.scratch(); };
  Range current = own;
  if (receives == 0 && !builder.in_place()) {
    builder.copy(own, output);
  } else if (receives > 0 && own == target(0)) {
    current = builder.scratch();
    builder.copy(own, current);
  }
  for (std::int32_t round = 0; (std::int64_t{1} << round) < ranks; ++round) {
    const std::int32_t distance = 1 << round;
    if (rank + distance < ranks) builder.send(rank + distance, current);
    if (round >= receives) continue;
    builder.recv_reduce(rank - distance, Side::left, current, target(round));
    current = target(round);
  }
  return builder.take();
}

}  // namespace

Algorithm scan_doubling() {
  return {.collective = Collective::scan,
          .name = "doubling",
          .summary = "ceil(log2 p) rounds of m",
          .source = "Hillis and Steele, Data parallel algorithms, CACM 1986",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = [](const Parameters &parameters) -> std::uint64_t {
            std::uint64_t messages = 0;
            for (std::int64_t distance = 1; distance < parameters.ranks; distance *= 2)
              messages += std::uint64_t(parameters.ranks - distance);
            return messages;
          }};
}

}  // namespace tutti::collectives

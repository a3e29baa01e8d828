// SPDX-License-Identifier: BSD-3-Clause
//
// Direct: everyone sends its vector to everyone and reduces all of them strictly in rank order, whatever the order of
// arrival, so all ranks get the same bits. One round of p - 1 messages: the least latency for few ranks and tiny
// vectors.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

// p - 1 messages of the whole vector per rank: far past the point where anything else is faster.
constexpr std::int32_t kMaxRanks = 64;

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank;
  if (ranks == 1) return vector_alone(parameters);
  Builder builder(parameters, 1);
  const Range output = builder.whole(Buffer::output);
  Range own = builder.whole(Buffer::input);
  if (parameters.in_place) {
    // Sends that wait for their receiver would otherwise hold the output that the receiver's own send waits for.
    if (ranks == 2) {
      // Of two, what arrives can be set aside instead, and the send goes first.
      builder.send(1 - rank, output);
      builder.recv(1 - rank, builder.scratch());
      builder.reduce(rank == 0 ? Side::right : Side::left, builder.scratch(), output);
      return builder.take();
    }
    own = builder.scratch();
    builder.copy(output, own);
  }
  // Each starts with its right neighbour, so that no rank is everyone's first target.
  for (std::int32_t distance = 1; distance < ranks; ++distance) builder.send(wrap(rank + distance, ranks), own);

  std::int32_t next = rank + 1;
  if (rank == 0) {
    builder.recv_reduce(next++, Side::right, own, output);
  } else if (rank == 1) {
    builder.recv_reduce(0, Side::left, own, output);
  } else {
    builder.recv(0, output);
    for (std::int32_t peer = 1; peer < rank; ++peer) builder.recv_reduce(peer, Side::right, output, output);
    builder.reduce(Side::right, own, output);
  }
  for (; next < ranks; ++next) builder.recv_reduce(next, Side::right, output, output);
  return builder.take();
}

}  // namespace

Algorithm allreduce_direct() {
  return {.collective = Collective::allreduce,
          .name = "direct",
          .summary = "1 round of p-1 messages, each rank sends (p-1)m; wins for tiny vectors and few ranks",
          .source = "folklore; order of reduction fixed to rank order",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = [](const Parameters &parameters) { return parameters.ranks <= kMaxRanks; },
          .build = build,
          .volume_blocks = [](const Parameters &parameters) -> std::uint64_t {
            return std::uint64_t(parameters.ranks) * (parameters.ranks - 1);
          }};
}

}  // namespace tutti::collectives

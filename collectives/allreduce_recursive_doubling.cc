// SPDX-License-Identifier: BSD-3-Clause
//
// Recursive doubling: partners at doubling distance swap all they have. Ranks beyond a power of two first fold into
// their neighbour, so that every group is a run of consecutive ranks and operands keep rank order, with the same bits
// on all ranks.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

// The first `folded` pairs (2i, 2i + 1) act as one member, through their even rank; all others for themselves.
struct Group {
  std::int32_t rounds = 0;
  std::int32_t folded = 0;

  explicit Group(std::int32_t ranks) {
    while ((std::int64_t{2} << rounds) <= ranks) ++rounds;
    folded = ranks - (1 << rounds);
  }
  bool in_pair(std::int32_t rank) const { return rank < 2 * folded; }
  std::int32_t member(std::int32_t rank) const { return in_pair(rank) ? rank / 2 : rank - folded; }
  std::int32_t rank(std::int32_t member) const { return member < folded ? 2 * member : member + folded; }
};

Schedule build(const Parameters &parameters) {
  if (parameters.ranks == 1) return vector_alone(parameters);
  const Group group(parameters.ranks);
  const std::int32_t rank = parameters.rank;
  Builder builder(parameters, 1);
  const Range output = builder.whole(Buffer::output), own = builder.whole(own_buffer(parameters));
  if (group.in_pair(rank) && rank % 2 == 1) {
    builder.send(rank - 1, own);
    builder.recv(rank - 1, output);
    return builder.take();
  }
  // A round reads one vector, which is also being sent, and writes another; the last one writes the output.
  const auto before = [&](std::int32_t round) { return (group.rounds - round) % 2 == 0 ? output : builder.scratch(); };
  Range current = own;
  if (group.in_pair(rank)) {
    current = before(0);
    builder.recv_reduce(rank + 1, Side::right, own, current);
  } else if (parameters.in_place && before(0) != output) {
    current = before(0);
    builder.copy(output, current);
  }
  for (std::int32_t round = 0; round < group.rounds; ++round) {
    const std::int32_t member = group.member(rank), partner = member ^ (1 << round);
    const std::int32_t peer = group.rank(partner);
    const Range next = before(round + 1);
    builder.send(peer, current);
    builder.recv_reduce(peer, partner < member ? Side::left : Side::right, current, next);
    current = next;
  }
  if (group.in_pair(rank)) builder.send(rank + 1, output);
  return builder.take();
}

}  // namespace

Algorithm allreduce_recursive_doubling() {
  return {.collective = Collective::allreduce,
          .name = "recursive_doubling",
          .summary = "floor(log2 p) rounds, +2 if p is no power of two, m per round; wins for small vectors",
          .source = "Thakur, Rabenseifner and Gropp, Optimization of collective communication in MPICH, 2005",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = [](const Parameters &parameters) -> std::uint64_t {
            const Group group(parameters.ranks);
            return 2 * std::uint64_t(group.folded) + (std::uint64_t(group.rounds) << group.rounds);
          }};
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// k-nomial tree towards the root: the tree of broadcast_knomial.cc, walked upwards. A rank's partial result covers the
// run of ranks from itself on, children in ascending order. With the tree's root at rank 0, and a last hop from there
// to the root that was asked for, operands keep rank order.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build_at(const Parameters &parameters, std::int32_t top) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank, radix = parameters.radix;
  const std::int32_t root = parameters.root;
  if (ranks == 1) return vector_alone(parameters);
  const std::int32_t distance = wrap(std::int64_t(rank) - top, ranks);
  const auto real = [&](std::int64_t virtual_rank) { return wrap(virtual_rank + top, ranks); };
  Builder builder(parameters, 1);
  const Range own = builder.whole(own_buffer(parameters));
  Range current = own;
  std::int64_t place = 1;
  for (; place < ranks && distance % (place * radix) == 0; place *= radix)
    for (std::int64_t child = distance + place; child < distance + place * radix && child < ranks; child += place) {
      // The result is made in the output where this rank is the one to have it.
      const Range target = rank == top && rank == root ? builder.whole(Buffer::output) : builder.scratch();
      builder.recv_reduce(real(child), Side::right, current, target);
      current = target;
    }
  if (distance != 0) builder.send(real(distance - distance / place % radix * place), current);
  if (top != root && rank == top) builder.send(root, current);
  if (top != root && rank == root) builder.recv(top, builder.whole(Buffer::output));
  return builder.take();
}

Schedule build(const Parameters &parameters) { return build_at(parameters, parameters.root); }
Schedule build_ordered(const Parameters &parameters) { return build_at(parameters, 0); }

}  // namespace

Algorithm reduce_knomial() {
  return {.collective = Collective::reduce,
          .name = "knomial",
          .summary = "ceil(log_k p) rounds of up to k-1 messages, (p-1)m in all; wins for small and middle vectors",
          .source = "folklore; k-nomial as in MPICH and UCC",
          .keeps_rank_order = false,
          .radices = {2, 4, 8},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = one_from_each_other};
}

Algorithm reduce_knomial_ordered() {
  return {.collective = Collective::reduce,
          .name = "knomial_ordered",
          .summary = "knomial towards rank 0 and one hop to the root; for operators that do not commute",
          .source = "folklore; as MPICH's for operators that do not commute",
          .keeps_rank_order = true,
          .radices = {2, 4, 8},
          .supports = supports_radix,
          .build = build_ordered,
          .volume_blocks = [](const Parameters &parameters) -> std::uint64_t {
            return one_from_each_other(parameters) + (parameters.root != 0 ? 1 : 0);
          }};
}

}  // namespace tutti::collectives

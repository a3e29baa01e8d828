// SPDX-License-Identifier: BSD-3-Clause
//
// By host: the trees of broadcast_hierarchical.cc, walked upwards. Each host but the root's sends the vector once.
#include "collectives/algorithms.h"
#include "collectives/host_trees.h"
#include "collectives/hosts.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  if (parameters.ranks == 1) return vector_alone(parameters);
  const Hosts hosts(parameters);
  const HostTrees trees(hosts, parameters);
  Builder builder(parameters, 1);
  Range current = builder.whole(own_buffer(parameters));
  trees.inside_then_across([&](std::int32_t child) {
    const Range target = parameters.rank == parameters.root ? builder.whole(Buffer::output) : builder.scratch();
    builder.recv_reduce(child, Side::right, current, target);
    current = target;
  });
  if (trees.parent() >= 0) builder.send(trees.parent(), current);
  return builder.take();
}

}  // namespace

Algorithm reduce_hierarchical() {
  return {.collective = Collective::reduce,
          .name = "hierarchical",
          .summary =
              "ceil(log_k) rounds in each host, then ceil(log_k N) across N, (p-1)m in all; wins for small and "
              "middle vectors where ranks share hosts",
          .source = "folklore",
          .keeps_rank_order = false,
          .radices = {2, 4, 8},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = one_from_each_other,
          .by_host = true};
}

}  // namespace tutti::collectives

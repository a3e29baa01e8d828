// SPDX-License-Identifier: BSD-3-Clause
//
// By host: a k-nomial tree over one leader of each host, the root for its own, then one inside each host. Each other
// host gets the vector once.
#include "collectives/algorithms.h"
#include "collectives/host_trees.h"
#include "collectives/hosts.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  Builder builder(parameters, 1);
  const Range all = builder.whole(Buffer::output);
  const Hosts hosts(parameters);
  const HostTrees trees(hosts, parameters);
  if (trees.parent() >= 0) builder.recv(trees.parent(), all);
  // Other hosts first: they have the longest way to go.
  trees.children_across([&](std::int32_t child) { builder.send(child, all); });
  trees.children_inside([&](std::int32_t child) { builder.send(child, all); });
  return builder.take();
}

}  // namespace

Algorithm broadcast_hierarchical() {
  return {.collective = Collective::broadcast,
          .name = "hierarchical",
          .summary =
              "ceil(log_k N) rounds across N hosts, then ceil(log_k) inside, (p-1)m in all; wins for small and "
              "middle vectors where ranks share hosts",
          .source = "folklore",
          .keeps_rank_order = true,
          .radices = {2, 4, 8},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = one_from_each_other,
          .by_host = true};
}

}  // namespace tutti::collectives

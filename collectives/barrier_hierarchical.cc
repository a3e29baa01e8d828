// SPDX-License-Identifier: BSD-3-Clause
//
// By host: the ranks of a host tell its first one, these meet by k-dissemination, and tell the others.
#include "collectives/algorithms.h"
#include "collectives/dissemination.h"
#include "collectives/first_ranks.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  if (parameters.ranks == 1) return vector_alone(parameters);
  const Hosts hosts(parameters);
  Builder builder(parameters, 1);
  // Only first ranks collect.
  Range heard;
  if (hosts.local() == 0) heard = disseminated(builder, -1, dissemination_rounds(hosts.count(), parameters.radix));
  through_first_ranks(builder, hosts, builder.whole(Buffer::input), heard,
                      [&](const std::vector<std::int32_t> &firsts, Range current) {
                        disseminate(builder, firsts, hosts.mine(), parameters.radix, current);
                      });
  return builder.take();
}

std::uint64_t volume(const Parameters &parameters) {
  const std::int32_t hosts = Hosts(parameters).count();
  return 2 * std::uint64_t(parameters.ranks - hosts) + dissemination_messages(hosts, parameters.radix);
}

}  // namespace

Algorithm barrier_hierarchical() {
  return {.collective = Collective::barrier,
          .name = "hierarchical",
          .summary = "2 rounds in each host of N, ceil(log_k N) rounds of k-1 messages across",
          .source = "folklore; across hosts as dissemination",
          .keeps_rank_order = false,
          .radices = {2, 4, 8},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = volume,
          .by_host = true};
}

}  // namespace tutti::collectives

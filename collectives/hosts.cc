// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/hosts.h"

#include <set>

namespace tutti::collectives {

std::int32_t count_hosts(std::span<const std::int32_t> hosts) {
  return std::int32_t(std::set<std::int32_t>(hosts.begin(), hosts.end()).size());
}

bool hosts_are_runs(std::span<const std::int32_t> hosts) {
  std::set<std::int32_t> ended;
  for (std::size_t rank = 1; rank < hosts.size(); ++rank) {
    if (hosts[rank] == hosts[rank - 1]) continue;
    if (ended.contains(hosts[rank])) return false;
    ended.insert(hosts[rank - 1]);
  }
  return true;
}

bool keeps_rank_order(const Algorithm &algorithm, const Parameters &parameters) {
  return algorithm.keeps_rank_order && (!algorithm.order_needs_runs || hosts_are_runs(parameters.hosts));
}

}  // namespace tutti::collectives

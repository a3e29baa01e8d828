// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/cost/bound.h"

#include <map>
#include <queue>
#include <vector>

#include "collectives/form.h"

namespace tutti::collectives::cost {
namespace {

// Everyone that knows tells another one every gap, who knows a latency later. Going backwards in time this is also how
// long all need to reach one.
double reach(std::int32_t all, const Link &link) {
  if (all <= 1) return 0;
  if (link.gap_s <= 0) return link.latency_s;
  std::priority_queue<double, std::vector<double>, std::greater<>> next_sends;
  next_sends.push(0);
  double arrival = 0;
  for (std::int32_t told = 1; told < all; ++told) {
    const double send = next_sends.top();
    next_sends.pop();
    arrival = send + link.latency_s;
    next_sends.push(send + link.gap_s);
    next_sends.push(arrival);
  }
  return arrival;
}

// Parts of the vector that must pass the busiest port in one direction, for `nodes` nodes of which the one that counts
// has `mine` of the ranks.
double passes(Collective collective, double ranks, double nodes, double mine) {
  switch (collective) {
    case Collective::barrier: return 0;
    case Collective::allreduce: return 2 * (nodes - 1) / nodes;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::scan: return 1;
    case Collective::exscan: return ranks > 1 ? 1 : 0;
    case Collective::alltoall:
    case Collective::alltoallv: return mine * (ranks - mine) / ranks;
    case Collective::reduce_scatter_block:
    case Collective::reduce_scatter:
    case Collective::allgather:
    case Collective::allgatherv:
    case Collective::gather:
    case Collective::gatherv:
    case Collective::scatter:
    case Collective::scatterv: return (ranks - mine) / ranks;
  }
  return 0;
}

}  // namespace

Bound bound(const Parameters &parameters, double bytes, const Machine &machine) {
  const std::int32_t ranks = parameters.ranks;
  if (ranks <= 1) return {};
  std::map<std::int32_t, std::int32_t> hosts;
  for (const std::int32_t host : parameters.hosts) ++hosts[host];
  const bool network = hosts.size() != 1;
  const Link &link = network ? machine.network : machine.host;
  // A node is what has a port of its own.
  const bool shared = network && !hosts.empty();
  const auto nodes = shared ? static_cast<std::int32_t>(hosts.size()) : ranks;
  std::int32_t mine = 1;
  if (shared) {
    const bool rooted = form_of(parameters.collective).rooted;
    mine = rooted ? hosts[parameters.hosts[static_cast<std::size_t>(parameters.root)]] : ranks;
    for (const auto &[host, members] : hosts)
      if (!rooted) mine = std::min(mine, members);
  }
  Bound result{.latency_s = reach(nodes, link)};
  result.bandwidth_s = passes(parameters.collective, ranks, nodes, mine) * bytes / link.bytes_per_s;
  if (form_of(parameters.collective).reduces && parameters.collective != Collective::barrier &&
      machine.reduced_per_s > 0) {
    // Of so many vectors one is left, or, on the last rank of an exscan, of one less.
    const std::int32_t reductions = parameters.collective == Collective::exscan ? ranks - 2 : ranks - 1;
    result.reduction_s = double(reductions) / ranks * bytes / machine.reduced_per_s;
  }
  return result;
}

}  // namespace tutti::collectives::cost

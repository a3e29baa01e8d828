// SPDX-License-Identifier: BSD-3-Clause
//
// By host. `hierarchical`: the vector is cut into lanes, as many as every host has ranks; inside a host each of its
// first ranks gets one lane from all others and reduces it, lanes are allreduced across hosts by circulant rounds, all
// at once, and handed to all ranks inside. Each host sends what one rank would. `leaders`: for small vectors, where the
// first rank of each host speaks for it.
#include "collectives/algorithms.h"
#include "collectives/circulant.h"
#include "collectives/first_ranks.h"
#include "collectives/hosts.h"
#include "collectives/multiplying.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  if (parameters.ranks == 1) return vector_alone(parameters);
  const Hosts hosts(parameters);
  const std::int32_t lanes = hosts.lanes(), mine = hosts.local();
  const std::vector<std::int32_t> &locals = hosts.members();
  const auto local_ranks = std::int32_t(locals.size());
  const auto blocks = std::uint32_t(hosts.count());
  Builder builder(parameters, std::uint32_t(lanes) * blocks);
  const Buffer own = own_buffer(parameters);
  const auto lane = [&](Buffer buffer, std::int32_t number) {
    return builder.part(buffer, std::uint32_t(number) * blocks, blocks);
  };
  // Calls use(local rank) for the others of this host, from the right neighbour on.
  const auto others = [&](const auto &use) {
    for (std::int32_t away = 1; away < local_ranks; ++away) use((mine + away) % local_ranks);
  };
  others([&](std::int32_t local) {
    if (local < lanes) builder.send(locals[std::size_t(local)], lane(own, local));
  });
  if (mine < lanes) {
    Buffer reduced = own;
    // The left neighbour sends here first.
    for (std::int32_t away = 1; away < local_ranks; ++away) {
      builder.recv_reduce(locals[std::size_t(wrap(mine - away, local_ranks))], Side::left, lane(reduced, mine),
                          lane(Buffer::output, mine));
      reduced = Buffer::output;
    }
    if (hosts.count() > 1) {
      Circle circle{.size = hosts.count(),
                    .index = hosts.mine(),
                    .first_block = std::uint32_t(mine) * blocks,
                    .radix = parameters.radix};
      for (std::int32_t host = 0; host < hosts.count(); ++host)
        circle.members.push_back(hosts.members(host)[std::size_t(mine)]);
      circulant_reduce_scatter(builder, circle, reduced, Buffer::output,
                               builder.output(circle.first_block + std::uint32_t(hosts.mine())));
      circulant_allgather(builder, circle, Buffer::output);
    }
    others([&](std::int32_t local) { builder.send(locals[std::size_t(local)], lane(Buffer::output, mine)); });
  }
  for (std::int32_t away = 1; away < local_ranks; ++away)
    if (const std::int32_t local = wrap(mine - away, local_ranks); local < lanes)
      builder.recv(locals[std::size_t(local)], lane(Buffer::output, local));
  return builder.take();
}

Schedule build_leaders(const Parameters &parameters) {
  if (parameters.ranks == 1) return vector_alone(parameters);
  const Hosts hosts(parameters);
  Builder builder(parameters, 1);
  through_first_ranks(builder, hosts, builder.whole(own_buffer(parameters)), builder.whole(Buffer::output),
                      [&](const std::vector<std::int32_t> &firsts, Range current) {
                        multiply(builder, firsts, hosts.mine(), parameters.radix, current);
                      });
  return builder.take();
}

// Inside the host each lane comes from all others and goes to all others; each pair of these is two messages.
std::uint64_t volume(const Parameters &parameters) {
  const Hosts hosts(parameters);
  return 2 * std::uint64_t(parameters.ranks - 1) * std::uint64_t(hosts.lanes()) * std::uint64_t(hosts.count());
}

std::uint64_t volume_of_leaders(const Parameters &parameters) {
  const std::int32_t hosts = Hosts(parameters).count();
  return 2 * std::uint64_t(parameters.ranks - hosts) + MultiplyingGroup(hosts, parameters.radix).volume();
}

}  // namespace

Algorithm allreduce_hierarchical() {
  return {
      .collective = Collective::allreduce,
      .name = "hierarchical",
      .summary =
          "lanes: 2 rounds in each host of N, 2 ceil(log_k N) across, each host sends 2m(N-1)/N; wins for "
          "middle and large vectors where ranks share hosts",
      .source = "Traff and Hunold, Decomposing collectives for exploiting multi-lane communication, arXiv 1910.13373",
      .keeps_rank_order = false,
      .radices = {2, 4},
      .supports = supports_radix,
      .build = build,
      .volume_blocks = volume,
      .by_host = true};
}

Algorithm allreduce_leaders() {
  return {.collective = Collective::allreduce,
          .name = "leaders",
          .summary = "2 rounds in each host of N, about log_k N across; wins for small vectors where ranks share hosts",
          .source = "folklore; across hosts as recursive_multiplying",
          .keeps_rank_order = true,
          .radices = {2, 4, 8},
          .supports = supports_radix,
          .build = build_leaders,
          .volume_blocks = volume_of_leaders,
          .by_host = true,
          .order_needs_runs = true};
}

}  // namespace tutti::collectives

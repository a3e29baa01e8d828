// SPDX-License-Identifier: BSD-3-Clause
//
// Scatter, then allgather: a binomial tree hands each rank the blocks of its subtree, circulant rounds bring the rest.
// Nobody receives a block that the scatter gave it, so every block reaches every rank once: the least volume. Block i
// belongs to the rank at distance i from the root. For large vectors.
#include "collectives/algorithms.h"
#include "collectives/circulant.h"

namespace tutti::collectives {
namespace {

// How many blocks, from its own on, the scatter gives to the rank at this distance from the root.
std::int32_t subtree(std::int32_t distance, std::int32_t ranks) {
  return distance == 0 ? ranks : std::min(distance & -distance, ranks - distance);
}

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks;
  const std::int32_t distance = wrap(std::int64_t(parameters.rank) - parameters.root, ranks);
  const auto real = [&](std::int64_t virtual_rank) { return wrap(virtual_rank + parameters.root, ranks); };
  Builder builder(parameters, std::uint32_t(ranks));
  const auto view = [&](std::int32_t begin, std::int32_t end, const auto &use) {
    for_view(distance, ranks, begin, end,
             [&](std::uint32_t first, std::uint32_t blocks) { use(builder.output(first, blocks)); });
  };

  if (distance != 0)
    builder.recv(real(distance - (distance & -distance)), builder.output(distance, subtree(distance, ranks)));
  const std::int64_t reach = distance == 0 ? std::int64_t{1} << ceil_log2(ranks) : distance & -distance;
  for (std::int64_t offset = reach / 2; offset > 0; offset /= 2) {
    const std::int64_t child = distance + offset;
    if (child < ranks)
      builder.send(real(child), builder.output(std::uint32_t(child), subtree(std::int32_t(child), ranks)));
  }

  const std::vector<CirculantRound> rounds = circulant_rounds(ranks);
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    const std::int32_t high = round->high, low = round->low;
    // What the receiver holds already is the beginning of its view.
    const std::int32_t held = subtree(wrap(distance - low, ranks), ranks);
    view(std::max(low, held) - low, high - low, [&](Range range) { builder.send(real(distance - low), range); });
    view(std::max(low, subtree(distance, ranks)), high,
         [&](Range range) { builder.recv(real(std::int64_t(distance) + low), range); });
  }
  return builder.take();
}

}  // namespace

Algorithm broadcast_scatter_allgather() {
  return {.collective = Collective::broadcast,
          .name = "scatter_allgather",
          .summary = "2 ceil(log2 p) rounds, (p-1)m in all, about 2m from the root; wins for large vectors",
          .source = "Barnett et al., van de Geijn's building blocks, 1994; allgather of arXiv 2410.14234",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = [](const Parameters &parameters) -> std::uint64_t {
            return std::uint64_t(parameters.ranks) * (parameters.ranks - 1);
          }};
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// k-nomial tree: gather_knomial.cc in reverse. The blocks of a subtree travel as one message, largest subtree first.
// For small blocks.
#include "collectives/algorithms.h"
#include "collectives/knomial.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const Knomial tree(parameters);
  const bool is_root = tree.distance() == 0;
  Builder builder(parameters, is_root ? std::uint32_t(parameters.ranks) : tree.size());
  if (is_root) {
    tree.children_largest_first([&](std::int64_t child, std::uint32_t size) {
      tree.real_runs(child, size, [&](std::uint32_t, std::uint32_t first, std::uint32_t blocks) {
        builder.send(tree.real(child), builder.input(first, blocks));
      });
    });
    if (!builder.in_place()) builder.copy(builder.input(std::uint32_t(parameters.rank)), builder.output(0));
    return builder.take();
  }
  const std::int32_t parent = tree.real(tree.parent());
  if (tree.size() == 1) {
    builder.recv(parent, builder.output(0));
    return builder.take();
  }
  if (tree.parent() != 0) builder.recv(parent, builder.scratch());
  else
    // As the root sends them.
    tree.real_runs(tree.distance(), tree.size(), [&](std::uint32_t offset, std::uint32_t, std::uint32_t blocks) {
      builder.recv(parent, builder.scratch_blocks(0, offset, blocks));
    });
  tree.children_largest_first([&](std::int64_t child, std::uint32_t size) {
    builder.send(tree.real(child), builder.scratch_blocks(0, std::uint32_t(child - tree.distance()), size));
  });
  builder.copy(builder.scratch_blocks(0, 0), builder.output(0));
  return builder.take();
}

}  // namespace

Algorithm scatter_knomial() {
  return {.collective = Collective::scatter,
          .name = "knomial",
          .summary = "ceil(log_k p) rounds of up to k-1 messages; wins for small blocks",
          .source = "folklore; k-nomial as in UCC",
          .keeps_rank_order = true,
          .radices = {2, 4, 8},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = Knomial::moved_blocks};
}

}  // namespace tutti::collectives

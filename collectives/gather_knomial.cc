// SPDX-License-Identifier: BSD-3-Clause
//
// k-nomial tree: each rank collects the blocks of its subtree in scratch, in order of distance from the root, and
// passes them on as one message; the root receives them where they belong. For small blocks.
#include "collectives/algorithms.h"
#include "collectives/knomial.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const Knomial tree(parameters);
  const bool is_root = tree.distance() == 0;
  Builder builder(parameters, is_root ? std::uint32_t(parameters.ranks) : tree.size());
  if (is_root) {
    if (!builder.in_place()) builder.copy(builder.input(0), builder.output(std::uint32_t(parameters.rank)));
    tree.children([&](std::int64_t child, std::uint32_t size) {
      tree.real_runs(child, size, [&](std::uint32_t, std::uint32_t first, std::uint32_t blocks) {
        builder.recv(tree.real(child), builder.output(first, blocks));
      });
    });
    return builder.take();
  }
  const bool leaf = tree.size() == 1;
  if (!leaf) builder.copy(builder.input(0), builder.scratch_blocks(0, 0));
  tree.children([&](std::int64_t child, std::uint32_t size) {
    builder.recv(tree.real(child), builder.scratch_blocks(0, std::uint32_t(child - tree.distance()), size));
  });
  const std::int32_t parent = tree.real(tree.parent());
  if (leaf) builder.send(parent, builder.input(0));
  else if (tree.parent() != 0) builder.send(parent, builder.scratch());
  else
    // As the root takes them.
    tree.real_runs(tree.distance(), tree.size(), [&](std::uint32_t offset, std::uint32_t, std::uint32_t blocks) {
      builder.send(parent, builder.scratch_blocks(0, offset, blocks));
    });
  return builder.take();
}

}  // namespace

Algorithm gather_knomial() {
  return {.collective = Collective::gather,
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

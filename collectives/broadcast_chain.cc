// SPDX-License-Identifier: BSD-3-Clause
//
// Chain: each rank hands the vector to the next. One block is enough to pipeline, since the executor streams: a rank
// forwards the prefix that has arrived. For very large vectors.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks;
  const std::int32_t distance = wrap(std::int64_t(parameters.rank) - parameters.root, ranks);
  Builder builder(parameters, 1);
  const Range all = builder.whole(Buffer::output);
  if (distance > 0) builder.recv(wrap(parameters.rank - 1, ranks), all);
  if (distance < ranks - 1) builder.send(wrap(parameters.rank + 1, ranks), all);
  return builder.take();
}

}  // namespace

Algorithm broadcast_chain() {
  return {.collective = Collective::broadcast,
          .name = "chain",
          .summary = "p-1 hops, streamed, (p-1)m in all and m per rank; wins for very large vectors",
          .source = "folklore; pipelined by the executor",
          .keeps_rank_order = true,
          .radices = {0},
          .supports = supports_all,
          .build = build,
          .volume_blocks = [](const Parameters &parameters) -> std::uint64_t { return parameters.ranks - 1; }};
}

}  // namespace tutti::collectives

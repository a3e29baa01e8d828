// SPDX-License-Identifier: BSD-3-Clause
//
// Bruck, radix k: block j of a rank's view has j ranks to go, and goes there digit by digit of j in base k: for each
// place and each digit all blocks that have it travel together. Few messages, some blocks sent more than once: for
// small blocks. Scratch: the view, what is packed to be sent, what was received.
#include "collectives/algorithms.h"
#include "collectives/circulant.h"

namespace tutti::collectives {
namespace {

constexpr std::uint32_t kView = 0, kPacked = 1, kReceived = 2;  // scratch vectors

// Calls use(first, blocks) for the runs of view elements that have this digit at this place.
template <class Use>
void for_digit(std::int32_t ranks, std::int64_t place, std::int64_t digit, std::int64_t radix, const Use &use) {
  for (std::int64_t first = digit * place; first < ranks; first += place * radix)
    use(std::uint32_t(first), std::uint32_t(std::min<std::int64_t>(place, ranks - first)));
}

Schedule build(const Parameters &parameters) {
  const std::int32_t ranks = parameters.ranks, rank = parameters.rank, radix = parameters.radix;
  Builder builder(parameters, std::uint32_t(ranks));
  const Buffer own = builder.in_place() ? Buffer::output : Buffer::input;
  if (ranks == 1) {
    if (!builder.in_place()) builder.copy(builder.input(0), builder.output(0));
    return builder.take();
  }
  std::uint32_t filled = 0;
  for_view(rank, ranks, 0, ranks, [&](std::uint32_t first, std::uint32_t blocks) {
    builder.copy({own, first, blocks}, builder.scratch_blocks(kView, filled, blocks));
    filled += blocks;
  });
  for (std::int64_t place = 1; place < ranks; place *= radix) {
    std::uint32_t packed = 0;
    for (std::int64_t digit = 1; digit < radix && digit * place < ranks; ++digit) {
      const std::uint32_t begin = packed;
      for_digit(ranks, place, digit, radix, [&](std::uint32_t first, std::uint32_t blocks) {
        builder.copy(builder.scratch_blocks(kView, first, blocks), builder.scratch_blocks(kPacked, packed, blocks));
        packed += blocks;
      });
      builder.send(wrap(rank + digit * place, ranks), builder.scratch_blocks(kPacked, begin, packed - begin));
      builder.recv(wrap(rank - digit * place, ranks), builder.scratch_blocks(kReceived, begin, packed - begin));
    }
    packed = 0;
    for (std::int64_t digit = 1; digit < radix && digit * place < ranks; ++digit)
      for_digit(ranks, place, digit, radix, [&](std::uint32_t first, std::uint32_t blocks) {
        builder.copy(builder.scratch_blocks(kReceived, packed, blocks), builder.scratch_blocks(kView, first, blocks));
        packed += blocks;
      });
  }
  // What has come j ranks far is from the rank j before this one.
  for (std::int32_t far = 0; far < ranks; ++far)
    builder.copy(builder.scratch_blocks(kView, std::uint32_t(far)),
                 builder.output(std::uint32_t(wrap(rank - far, ranks))));
  return builder.take();
}

// Each block as often as its distance has digits that are not zero.
std::uint64_t volume(const Parameters &parameters) {
  std::uint64_t hops = 0;
  for (std::int32_t distance = 1; distance < parameters.ranks; ++distance)
    for (std::int32_t rest = distance; rest > 0; rest /= parameters.radix) hops += rest % parameters.radix != 0;
  return hops * parameters.ranks;
}

}  // namespace

Algorithm alltoall_bruck() {
  return {.collective = Collective::alltoall,
          .name = "bruck",
          .summary = "ceil(log_k p) rounds of k-1 messages of up to m/k; wins for small blocks",
          .source = "Bruck et al., Efficient algorithms for all-to-all communications, TPDS 1997; radix as Fan, SC22",
          .keeps_rank_order = true,
          .radices = {2, 4, 8},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = volume};
}

}  // namespace tutti::collectives

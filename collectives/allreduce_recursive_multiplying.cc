// SPDX-License-Identifier: BSD-3-Clause
//
// Recursive multiplying, radix k: in each round groups of up to k neighbours (of groups so far) swap all they have, and
// each of them reduces in rank order, so all get the same bits. Ranks beyond a product of factors up to k first fold
// into their neighbour, as in allreduce_recursive_doubling.cc. Fewer rounds for more messages at once: for small
// vectors.
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

// The factors, each at most `radix`, largest first, of which `members` is the product; empty also if it is not one.
std::vector<std::int32_t> factors_of(std::int32_t members, std::int32_t radix) {
  std::vector<std::int32_t> factors;
  for (std::int32_t factor = radix; factor >= 2; --factor)
    for (; members % factor == 0; members /= factor) factors.push_back(factor);
  if (members != 1) factors.clear();
  return factors;
}

// The first `folded` pairs (2i, 2i + 1) act as one member, through their even rank; all others for themselves.
struct Group {
  std::int32_t folded = 0;
  std::vector<std::int32_t> factors;

  // A power of two is at most half away, so pairs are enough.
  Group(std::int32_t ranks, std::int32_t radix) {
    for (factors = factors_of(ranks, radix); factors.empty() && ranks - folded > 1;
         factors = factors_of(ranks - folded, radix))
      ++folded;
  }
  bool in_pair(std::int32_t rank) const { return rank < 2 * folded; }
  std::int32_t member(std::int32_t rank) const { return in_pair(rank) ? rank / 2 : rank - folded; }
  std::int32_t rank(std::int32_t member) const { return member < folded ? 2 * member : member + folded; }
};

Schedule build(const Parameters &parameters) {
  if (parameters.ranks == 1) return vector_alone(parameters);
  const Group group(parameters.ranks, parameters.radix);
  const std::int32_t rank = parameters.rank, rounds = std::int32_t(group.factors.size());
  Builder builder(parameters, 1);
  const Range output = builder.whole(Buffer::output), own = builder.whole(own_buffer(parameters));
  if (group.in_pair(rank) && rank % 2 == 1) {
    builder.send(rank - 1, own);
    builder.recv(rank - 1, output);
    return builder.take();
  }
  // A round reads one vector, which is also being sent, and writes another; the last one writes the output.
  const auto before = [&](std::int32_t round) { return (rounds - round) % 2 == 0 ? output : builder.scratch(); };
  Range current = own;
  if (group.in_pair(rank)) {
    current = before(0);
    builder.recv_reduce(rank + 1, Side::right, own, current);
  } else if (builder.in_place() && before(0) != output) {
    current = before(0);
    builder.copy(output, current);
  }
  const std::int32_t member = group.member(rank);
  std::int32_t stride = 1;
  for (std::int32_t round = 0; round < rounds; ++round) {
    const std::int32_t factor = group.factors[round], digit = member / stride % factor;
    const Range next = before(round + 1);
    const auto peer = [&](std::int32_t other) { return group.rank(member + (other - digit) * stride); };
    for (std::int32_t away = 1; away < factor; ++away) builder.send(peer((digit + away) % factor), current);
    std::int32_t other = digit + 1;
    if (digit == 0) {
      builder.recv_reduce(peer(other++), Side::right, current, next);
    } else if (digit == 1) {
      builder.recv_reduce(peer(0), Side::left, current, next);
    } else {
      builder.recv(peer(0), next);
      for (std::int32_t lower = 1; lower < digit; ++lower) builder.recv_reduce(peer(lower), Side::right, next, next);
      builder.reduce(Side::right, current, next);
    }
    for (; other < factor; ++other) builder.recv_reduce(peer(other), Side::right, next, next);
    current = next;
    stride *= factor;
  }
  if (group.in_pair(rank)) builder.send(rank + 1, output);
  return builder.take();
}

std::uint64_t volume(const Parameters &parameters) {
  if (parameters.ranks == 1) return 0;
  const Group group(parameters.ranks, parameters.radix);
  std::uint64_t messages = 0;
  for (const std::int32_t factor : group.factors) messages += std::uint64_t(factor - 1);
  return 2 * std::uint64_t(group.folded) + messages * std::uint64_t(parameters.ranks - group.folded);
}

}  // namespace

Algorithm allreduce_recursive_multiplying() {
  return {.collective = Collective::allreduce,
          .name = "recursive_multiplying",
          .summary = "about log_k p rounds of k-1 messages of m, +2 if p has a factor above k; wins for small vectors",
          .source = "Ruefenacht, Bull and Booth, Generalisation of recursive doubling for allreduce, 2017",
          .keeps_rank_order = true,
          .radices = {2, 3, 4, 8},
          .supports = supports_radix,
          .build = build,
          .volume_blocks = volume};
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// Recursive multiplying, radix k: in each round groups of up to k neighbours (of groups so far) swap all they have, and
// each of them reduces in the order of members, so all get the same bits. Members beyond a product of factors up to k
// first fold into their neighbour, as in allreduce_recursive_doubling.cc.
#pragma once

#include <algorithm>
#include <vector>

#include "collectives/builder.h"

namespace tutti::collectives {

// The factors, each at most `radix`, largest first, of which `members` is the product; empty also if it is not one.
inline std::vector<std::int32_t> factors_of(std::int32_t members, std::int32_t radix) {
  std::vector<std::int32_t> factors;
  for (std::int32_t factor = radix; factor >= 2; --factor)
    for (; members % factor == 0; members /= factor) factors.push_back(factor);
  if (members != 1) factors.clear();
  return factors;
}

// The largest product of factors up to `radix` that is at most `limit`; prime factors are taken in falling order.
inline std::int32_t largest_product(std::int32_t limit, std::int32_t radix, std::int32_t largest_prime) {
  if (limit <= radix) return limit;
  std::int32_t best = 1;
  for (std::int32_t prime = largest_prime; prime >= 2 && best < limit; --prime) {
    bool is_prime = true;
    for (std::int32_t divisor = 2; divisor * divisor <= prime; ++divisor) is_prime = is_prime && prime % divisor != 0;
    if (is_prime) best = std::max(best, prime * largest_product(limit / prime, radix, prime));
  }
  return best;
}

// The first `folded` pairs (2i, 2i + 1) act as one member, through their even rank; all others for themselves.
struct MultiplyingGroup {
  std::int32_t folded = 0;
  std::vector<std::int32_t> factors;

  // A power of two is at most half away, so pairs are enough.
  MultiplyingGroup(std::int32_t ranks, std::int32_t radix)
      : folded(ranks - largest_product(ranks, radix, radix)), factors(factors_of(ranks - folded, radix)) {}
  bool in_pair(std::int32_t rank) const { return rank < 2 * folded; }
  std::int32_t member(std::int32_t rank) const { return in_pair(rank) ? rank / 2 : rank - folded; }
  std::int32_t rank(std::int32_t member) const { return member < folded ? 2 * member : member + folded; }
  // Vectors that all ranks together send.
  std::uint64_t volume() const {
    std::uint64_t messages = 0, members = 1;
    for (const std::int32_t factor : factors) messages += std::uint64_t(factor - 1), members *= std::uint64_t(factor);
    return 2 * std::uint64_t(folded) + messages * members;
  }
};

// Reduces what each of `ranks` (the real ranks of those who take part, two or more) has in `own` into the output of all
// of them; `mine` is this rank's place among them. `own` may be the output.
inline void multiply(Builder &builder, const std::vector<std::int32_t> &ranks, std::int32_t mine, std::int32_t radix,
                     Range own) {
  const MultiplyingGroup group(std::int32_t(ranks.size()), radix);
  const auto real = [&](std::int32_t index) { return ranks[std::size_t(index)]; };
  const auto rounds = std::int32_t(group.factors.size());
  const Range output = builder.whole(Buffer::output);
  if (group.in_pair(mine) && mine % 2 == 1) {
    builder.send(real(mine - 1), own);
    builder.recv(real(mine - 1), output);
    return;
  }
  // A round reads one vector, which is also being sent, and writes another; the last one writes the output.
  const auto before = [&](std::int32_t round) { return (rounds - round) % 2 == 0 ? output : builder.scratch(); };
  Range current = own;
  if (group.in_pair(mine)) {
    current = before(0);
    builder.recv_reduce(real(mine + 1), Side::right, own, current);
  } else if ((own == output || builder.in_place()) && before(0) != output) {
    current = before(0);
    builder.copy(own, current);
  }
  const std::int32_t member = group.member(mine);
  std::int32_t stride = 1;
  for (std::int32_t round = 0; round < rounds; ++round) {
    const std::int32_t factor = group.factors[std::size_t(round)], digit = member / stride % factor;
    const Range next = before(round + 1);
    const auto peer = [&](std::int32_t other) { return real(group.rank(member + (other - digit) * stride)); };
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
  if (group.in_pair(mine)) builder.send(real(mine + 1), output);
}

}  // namespace tutti::collectives

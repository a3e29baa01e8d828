// SPDX-License-Identifier: BSD-3-Clause
//
// k-dissemination: in round i each of those who take part tells the ones at distances j * k^i, j < k, that it and all
// it has heard of have come. The byte sent is made from the bytes received before, so that no send can run ahead of
// what it stands for. Two bytes alternate: one is sent while the other is made.
#pragma once

#include <vector>

#include "collectives/builder.h"

namespace tutti::collectives {

// Rounds among so many.
inline std::int32_t dissemination_rounds(std::int32_t count, std::int32_t radix) {
  std::int32_t rounds = 0;
  for (std::int64_t reach = 1; reach < count; reach *= radix) ++rounds;
  return rounds;
}

// Where round `round` of so many leaves what it made; -1: where what the first one sends may be made.
inline Range disseminated(Builder &builder, std::int32_t round, std::int32_t rounds) {
  return (rounds - round) % 2 != 0 ? builder.whole(Buffer::output) : builder.scratch();
}

// `current` stands for what this rank has heard of before; the output stands for all afterwards. `members`: the real
// ranks, two or more; `mine`: this rank's place among them.
inline void disseminate(Builder &builder, const std::vector<std::int32_t> &members, std::int32_t mine,
                        std::int32_t radix, Range current) {
  const auto count = std::int32_t(members.size());
  const auto peer = [&](std::int64_t place) { return members[std::size_t(wrap(place, count))]; };
  const std::int32_t rounds = dissemination_rounds(count, radix);
  std::int64_t distance = 1;
  for (std::int32_t round = 0; round < rounds; ++round, distance *= radix) {
    const Range next = disseminated(builder, round, rounds);
    for (std::int64_t away = distance; away < distance * radix && away < count; away += distance)
      builder.send(peer(mine + away), current);
    for (std::int64_t away = distance; away < distance * radix && away < count; away += distance) {
      builder.recv_reduce(peer(mine - away), Side::right, current, next);
      current = next;
    }
  }
}

// Each digit of each distance is one message from each of them.
inline std::uint64_t dissemination_messages(std::int32_t count, std::int32_t radix) {
  std::uint64_t messages = 0;
  for (std::int64_t distance = 1; distance < count; distance *= radix)
    messages += std::uint64_t(std::min<std::int64_t>(radix - 1, (count - 1) / distance));
  return messages * std::uint64_t(count);
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// Bytes that are almost right: what parsers have to stand.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "support/random.h"

namespace tutti::test {

// One to four changes of a valid message: bits, whole bytes, lengths, pieces left out, doubled or made up.
inline std::vector<std::byte> mutated(std::vector<std::byte> bytes, Random &random) {
  for (std::uint64_t left = 1 + random.below(4); left > 0; --left) {
    const auto size = static_cast<std::ptrdiff_t>(bytes.size());
    const auto at = static_cast<std::ptrdiff_t>(random.below(bytes.size() + 1));
    const auto length = std::min<std::ptrdiff_t>(size - at, static_cast<std::ptrdiff_t>(random.below(9)));
    const auto any = [&] {
      return static_cast<std::byte>(random.one_of({0, 1, 127, 128, 255, static_cast<int>(random.below(256))}));
    };
    switch (random.below(6)) {
      case 0:
        if (at < size) bytes[static_cast<std::size_t>(at)] ^= static_cast<std::byte>(1 << random.below(8));
        break;
      case 1: std::generate_n(bytes.begin() + at, length, any); break;
      case 2: bytes.resize(static_cast<std::size_t>(at)); break;
      case 3: bytes.erase(bytes.begin() + at, bytes.begin() + at + length); break;
      case 4: {
        const std::vector<std::byte> piece(bytes.begin() + at, bytes.begin() + at + length);
        bytes.insert(bytes.begin() + at, piece.begin(), piece.end());
        break;
      }
      default: bytes.insert(bytes.begin() + at, any());
    }
  }
  return bytes;
}

}  // namespace tutti::test

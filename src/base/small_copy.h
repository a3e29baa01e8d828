// SPDX-License-Identifier: BSD-3-Clause
//
// Copies of small messages, without a call. Word by word and never overlapping: such a message was written a moment
// ago, word by word, and a processor hands a store on to a load only where the store covers all that is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti {

inline constexpr std::size_t kSmallCopyBytes = 64;

// bytes <= kSmallCopyBytes.
__attribute__((always_inline)) inline void copy_small(void *to, const void *from, std::size_t bytes) {
  auto *out = static_cast<unsigned char *>(to);
  const auto *in = static_cast<const unsigned char *>(from);
  const auto move = [&]<class Word>(Word word) {
    std::memcpy(&word, in, sizeof word);
    std::memcpy(out, &word, sizeof word);
    in += sizeof word;
    out += sizeof word;
  };
  const auto move_word = [&] {
    move(std::uint64_t{});
    asm volatile("" ::: "memory");  // or the compiler makes wider moves of several
  };
  if (bytes == 32) {  // a header and 8 bytes: the smallest of messages
    move_word();
    move_word();
    move_word();
    move_word();
    return;
  }
  for (std::size_t words = bytes / 8; words != 0; --words) move_word();
  if (bytes & 4) move(std::uint32_t{});
  if (bytes & 2) move(std::uint16_t{});
  if (bytes & 1) move(std::uint8_t{});
}

// Any number of bytes; small ones without a call.
__attribute__((always_inline)) inline void copy_bytes(void *to, const void *from, std::size_t bytes) {
  if (bytes <= kSmallCopyBytes) copy_small(to, from, bytes);
  else std::memcpy(to, from, bytes);
}

}  // namespace tutti

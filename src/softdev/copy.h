// SPDX-License-Identifier: BSD-3-Clause
//
// Copies into a peer's memory. Large ones bypass the cache: the peer reads them on another core, and with both
// directions busy non-temporal stores moved half as much again as memcpy on the reference machine (docs/SOFTDEV.md).
// Invariant: copy_fence() comes between such copies and the store that announces them, since non-temporal stores are
// not ordered by release.
#pragma once

#include "base/stream_copy.h"

namespace tutti::softdev {

// Below this memcpy wins, since the data is still in the reader's share of the caches when it looks.
inline constexpr std::size_t kStreamBytes = 8 << 10;

// Whole aligned words, each by one store: peers may watch a few words that are written again and again, as they may on
// real devices, and must never see half of one.
inline bool copy_words(std::byte *to, const void *from, std::size_t bytes) {
  constexpr std::size_t kWord = sizeof(std::uint64_t), kMostBytes = 64;
  if (bytes > kMostBytes || bytes % kWord != 0 || reinterpret_cast<std::uintptr_t>(to) % kWord != 0) return false;
  for (std::size_t at = 0; at < bytes; at += kWord) {
    std::uint64_t word;
    std::memcpy(&word, static_cast<const std::byte *>(from) + at, kWord);
    __atomic_store_n(reinterpret_cast<std::uint64_t *>(to + at), word, __ATOMIC_RELEASE);
  }
  return true;
}

inline void copy_to_peer(std::byte *to, const void *from, std::size_t bytes) {
  if (bytes >= kStreamBytes) copy_stream(to, from, bytes);
  else if (!copy_words(to, from, bytes)) std::memcpy(to, from, bytes);
}

}  // namespace tutti::softdev

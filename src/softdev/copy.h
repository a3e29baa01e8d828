// SPDX-License-Identifier: BSD-3-Clause
//
// Copies into a peer's memory. Large ones bypass the cache: the peer reads them on another core, and with both
// directions busy non-temporal stores moved half as much again as memcpy on the reference machine (docs/SOFTDEV.md).
// Invariant: copy_fence() comes between such copies and the store that announces them, since non-temporal stores are
// not ordered by release.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TUTTI_SOFTDEV_STREAM 1
#include <immintrin.h>
#endif

namespace tutti::softdev {

// Below this memcpy wins, since the data is still in the reader's share of the caches when it looks. Above, a plain
// store first fetches each line from the core that read it last: broadcasts of 16 to 128 KiB between distant cores took
// three to four times as long, between near ones as long or a little longer.
inline constexpr std::size_t kStreamBytes = 8 << 10;

// Past the caches. To be followed by copy_fence().
inline void copy_stream(std::byte *to, const void *from, std::size_t bytes) {
#ifdef TUTTI_SOFTDEV_STREAM
  const std::byte *source = static_cast<const std::byte *>(from);
  const std::size_t lead = std::min<std::size_t>((64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64, bytes);
  std::memcpy(to, source, lead);
  to += lead;
  source += lead;
  bytes -= lead;
  for (; bytes >= 64; bytes -= 64, to += 64, source += 64) {
    _mm_prefetch(reinterpret_cast<const char *>(source + 512), _MM_HINT_T0);
    const __m128i *in = reinterpret_cast<const __m128i *>(source);
    __m128i *out = reinterpret_cast<__m128i *>(to);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1), c = _mm_loadu_si128(in + 2),
                  d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  from = source;
#endif
  std::memcpy(to, from, bytes);
}

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

inline void copy_fence() {
#ifdef TUTTI_SOFTDEV_STREAM
  _mm_sfence();
#endif
}

}  // namespace tutti::softdev

// SPDX-License-Identifier: BSD-3-Clause
//
// The two ways to copy that the probe tries: memcpy, and stores that go past the cache. Invariant: after it returns, a
// release store publishes the bytes in either way.
#pragma once

#include <cstddef>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tutti::perf {

#ifdef __SSE2__
inline constexpr bool kCanStreamPastCache = true;
#else
inline constexpr bool kCanStreamPastCache = false;
#endif

// `to` and `from` are aligned to 16 bytes, bytes is a multiple of 64.
inline void stream_copy(std::byte *to, const std::byte *from, std::size_t bytes, bool past_cache) {
#ifdef __SSE2__
  if (past_cache) {
    for (std::size_t i = 0; i < bytes; i += 64) {
      const auto *source = reinterpret_cast<const __m128i *>(from + i);
      auto *target = reinterpret_cast<__m128i *>(to + i);
      const __m128i a = _mm_load_si128(source), b = _mm_load_si128(source + 1), c = _mm_load_si128(source + 2),
                    d = _mm_load_si128(source + 3);
      _mm_stream_si128(target, a);
      _mm_stream_si128(target + 1, b);
      _mm_stream_si128(target + 2, c);
      _mm_stream_si128(target + 3, d);
    }
    _mm_sfence();  // such stores are not ordered by a release store
    return;
  }
#endif
  static_cast<void>(past_cache);
  std::memcpy(to, from, bytes);
}

}  // namespace tutti::perf

// SPDX-License-Identifier: BSD-3-Clause
//
// Copies past the caches, of what another core will read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TUTTI_STREAM_COPY 1
#include <immintrin.h>
#endif

namespace tutti {

// Past the caches. To be followed by copy_fence().
inline void copy_stream(std::byte *to, const void *from, std::size_t bytes) {
#ifdef TUTTI_STREAM_COPY
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

inline void copy_fence() {
#ifdef TUTTI_STREAM_COPY
  _mm_sfence();
#endif
}

// A count that goes on with time, quickly read; 0 where there is none.
inline std::uint64_t ticks() {
#ifdef TUTTI_STREAM_COPY
  return __rdtsc();
#else
  return 0;
#endif
}

}  // namespace tutti

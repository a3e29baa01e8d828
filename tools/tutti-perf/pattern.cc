// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/pattern.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace tutti::perf {
namespace {

constexpr std::size_t kPeriod = 4093;  // prime, see the header; a period of 8-byte elements fits the first-level cache

// A 64-bit mix (the finaliser of splitmix64): neighbouring ranks and elements get unrelated values.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Integers take any bits: arithmetic wraps, so every order gives the same. Floating values stay where every partial
// result is exact: sums of integers up to 8, products of which one factor is 2 and the others are 1 or -1. No value is
// zero, so no result is -0 (sums of opposite values give +0 in any order).
template <class T>
T value(tutti_op op, int ranks, int rank, std::size_t element) {
  const std::uint64_t bits = mix(mix(element) + static_cast<std::uint64_t>(rank));
  if constexpr (std::is_integral_v<T>) {
    // Products of odd factors never become zero, after which nothing else would be seen.
    return static_cast<T>(op == TUTTI_PROD ? bits | 1 : bits);
  } else {
    const int sign = (bits & 1) != 0 ? 1 : -1;
    if (op == TUTTI_PROD) {
      const bool doubles = mix(element) % static_cast<std::uint64_t>(ranks) == static_cast<std::uint64_t>(rank);
      return static_cast<T>(doubles ? 2 * sign : sign);
    }
    const int range = op == TUTTI_SUM ? 8 : 1'000'000;  // both exact in float
    return static_cast<T>(sign * static_cast<int>(1 + (bits >> 1) % static_cast<std::uint64_t>(range)));
  }
}

template <class T>
T combine(tutti_op op, T a, T b) {
  if (op == TUTTI_MIN) return std::min(a, b);
  if (op == TUTTI_MAX) return std::max(a, b);
  if constexpr (std::is_integral_v<T>) {
    // Unsigned, where overflow is defined, and 64 bits wide, which nothing is promoted past.
    using Bits = std::make_unsigned_t<T>;
    const std::uint64_t x = static_cast<Bits>(a), y = static_cast<Bits>(b);
    return static_cast<T>(op == TUTTI_SUM ? x + y : x * y);
  } else {
    return op == TUTTI_SUM ? a + b : a * b;
  }
}

struct Periods {
  std::vector<std::byte> mine, expected;
};

template <class T>
Periods make(Outcome outcome, tutti_op op, int ranks, int rank, int root) {
  Periods periods{std::vector<std::byte>(kPeriod * sizeof(T)), std::vector<std::byte>(kPeriod * sizeof(T))};
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const T mine = value<T>(op, ranks, rank, i);
    T expected = value<T>(op, ranks, outcome == Outcome::root ? root : 0, i);
    if (outcome == Outcome::reduction)
      for (int other = 1; other < ranks; ++other) expected = combine(op, expected, value<T>(op, ranks, other, i));
    std::memcpy(&periods.mine[i * sizeof(T)], &mine, sizeof(T));
    std::memcpy(&periods.expected[i * sizeof(T)], &expected, sizeof(T));
  }
  return periods;
}

Periods make(const ElementType &type, Outcome outcome, tutti_op op, int ranks, int rank, int root) {
  switch (type.id) {
    case TUTTI_INT8: return make<std::int8_t>(outcome, op, ranks, rank, root);
    case TUTTI_UINT8: return make<std::uint8_t>(outcome, op, ranks, rank, root);
    case TUTTI_INT16: return make<std::int16_t>(outcome, op, ranks, rank, root);
    case TUTTI_UINT16: return make<std::uint16_t>(outcome, op, ranks, rank, root);
    case TUTTI_INT32: return make<std::int32_t>(outcome, op, ranks, rank, root);
    case TUTTI_UINT32: return make<std::uint32_t>(outcome, op, ranks, rank, root);
    case TUTTI_INT64: return make<std::int64_t>(outcome, op, ranks, rank, root);
    case TUTTI_UINT64: return make<std::uint64_t>(outcome, op, ranks, rank, root);
    case TUTTI_FLOAT: return make<float>(outcome, op, ranks, rank, root);
    case TUTTI_DOUBLE: return make<double>(outcome, op, ranks, rank, root);
    default: break;
  }
  TUTTI_CHECK(false, "a type of the table has no pattern");
  return {};
}

}  // namespace

Pattern::Pattern(Outcome outcome, const ElementType &type, const Operator &op, int ranks, int rank, int root)
    : bytes_(type.bytes) {
  Periods periods = make(type, outcome, op.id, ranks, rank, root);
  mine_ = std::move(periods.mine);
  expected_ = std::move(periods.expected);
  poison_ = expected_;
  std::ranges::for_each(poison_, [](std::byte &byte) { byte = ~byte; });
  if (outcome == Outcome::root && rank != root) mine_ = poison_;
}

void Pattern::lay(const std::vector<std::byte> &period, void *memory, std::size_t count, std::uint64_t salt) const {
  auto *to = static_cast<std::byte *>(memory);
  std::size_t from = salt % kPeriod;
  while (count > 0) {
    const std::size_t run = std::min(count, kPeriod - from);
    std::memcpy(to, &period[from * bytes_], run * bytes_);
    to += run * bytes_;
    count -= run;
    from = 0;
  }
}

void Pattern::fill(void *memory, std::size_t count, std::uint64_t salt) const { lay(mine_, memory, count, salt); }
void Pattern::poison(void *memory, std::size_t count, std::uint64_t salt) const { lay(poison_, memory, count, salt); }

std::uint64_t Pattern::wrong(const void *memory, std::size_t count, std::uint64_t salt) const {
  const auto *at = static_cast<const std::byte *>(memory);
  std::uint64_t wrong = 0;
  std::size_t from = salt % kPeriod;
  while (count > 0) {
    const std::size_t run = std::min(count, kPeriod - from);
    if (std::memcmp(at, &expected_[from * bytes_], run * bytes_) != 0)
      for (std::size_t i = 0; i < run; ++i)
        wrong += std::memcmp(at + i * bytes_, &expected_[(from + i) * bytes_], bytes_) != 0 ? 1 : 0;
    at += run * bytes_;
    count -= run;
    from = 0;
  }
  return wrong;
}

}  // namespace tutti::perf

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

using Period = std::vector<std::byte>;

// The period of the ranks [first, last), combined.
template <class T>
Period make(tutti_op op, int ranks, int first, int last) {
  Period period(kPeriod * sizeof(T));
  for (std::size_t i = 0; i < kPeriod; ++i) {
    T all = value<T>(op, ranks, first, i);
    for (int other = first + 1; other < last; ++other) all = combine(op, all, value<T>(op, ranks, other, i));
    std::memcpy(&period[i * sizeof(T)], &all, sizeof(T));
  }
  return period;
}

Period make(const ElementType &type, tutti_op op, int ranks, int first, int last) {
  switch (type.id) {
    case TUTTI_INT8: return make<std::int8_t>(op, ranks, first, last);
    case TUTTI_UINT8: return make<std::uint8_t>(op, ranks, first, last);
    case TUTTI_INT16: return make<std::int16_t>(op, ranks, first, last);
    case TUTTI_UINT16: return make<std::uint16_t>(op, ranks, first, last);
    case TUTTI_INT32: return make<std::int32_t>(op, ranks, first, last);
    case TUTTI_UINT32: return make<std::uint32_t>(op, ranks, first, last);
    case TUTTI_INT64: return make<std::int64_t>(op, ranks, first, last);
    case TUTTI_UINT64: return make<std::uint64_t>(op, ranks, first, last);
    case TUTTI_FLOAT: return make<float>(op, ranks, first, last);
    case TUTTI_DOUBLE: return make<double>(op, ranks, first, last);
    default: break;
  }
  TUTTI_CHECK(false, "a type of the table has no pattern");
  return {};
}

}  // namespace

Pattern::Pattern(Outcome outcome, const ElementType &type, const Operator &op, int ranks, int rank, int root)
    : bytes_(type.bytes) {
  const auto of = [&](int first, int last) { periods_.push_back(make(type, op.id, ranks, first, last)); };
  const auto all_ranks = static_cast<std::size_t>(ranks), own = static_cast<std::size_t>(rank);
  mine_ = make(type, op.id, ranks, rank, rank + 1);
  const auto from_each = [&](std::size_t from) {
    for (int other = 0; other < ranks; ++other) {
      blocks_.push_back({periods_.size(), from});
      of(other, other + 1);
    }
  };
  switch (outcome) {
    case Outcome::nothing: input_blocks_ = 0; break;
    case Outcome::root_reduction:
      if (rank != root) break;
      [[fallthrough]];
    case Outcome::reduction:
      of(0, ranks);
      blocks_ = {{0, 0}};
      break;
    case Outcome::reduced_block:
      of(0, ranks);
      blocks_ = {{0, own}};
      input_blocks_ = all_ranks;
      break;
    case Outcome::prefix:
      of(0, rank + 1);
      blocks_ = {{0, 0}};
      break;
    case Outcome::prefix_before:
      // Rank 0 has an output that stays as it is.
      if (rank > 0) of(0, rank);
      if (rank > 0) blocks_ = {{0, 0}};
      break;
    case Outcome::root:
      of(root, root + 1);
      blocks_ = {{0, 0}};
      gives_ = rank == root;
      break;
    case Outcome::root_block:
      of(root, root + 1);
      blocks_ = {{0, own}};
      input_blocks_ = rank == root ? all_ranks : 0;
      break;
    case Outcome::root_blocks:
      if (rank == root) from_each(0);
      break;
    case Outcome::blocks:
      from_each(0);
      own_place_ = own;
      break;
    case Outcome::exchange:
      from_each(own);
      input_blocks_ = all_ranks;
      break;
  }
}

void Pattern::lay(const Period &period, void *memory, std::size_t count, std::uint64_t salt, bool wrong) const {
  auto *to = static_cast<std::byte *>(memory);
  std::size_t from = salt % kPeriod;
  while (count > 0) {
    const std::size_t run = std::min(count, kPeriod - from);
    std::memcpy(to, &period[from * bytes_], run * bytes_);
    if (wrong) std::for_each(to, to + run * bytes_, [](std::byte &byte) { byte = ~byte; });
    to += run * bytes_;
    count -= run;
    from = 0;
  }
}

void Pattern::fill(void *memory, std::size_t count, std::uint64_t salt) const {
  if (gives_) lay(mine_, memory, inputs(count), salt, false);
  else poison(memory, count, salt);
}

void Pattern::poison(void *memory, std::size_t count, std::uint64_t salt) const {
  auto *to = static_cast<std::byte *>(memory);
  for (const Block &block : blocks_) {
    lay(periods_[block.period], to, count, salt + block.from * count, true);
    to += count * bytes_;
  }
}

std::uint64_t Pattern::wrong(const void *memory, std::size_t count, std::uint64_t salt) const {
  const auto *at = static_cast<const std::byte *>(memory);
  std::uint64_t wrong = 0;
  for (const Block &block : blocks_) {
    wrong += wrong_in(periods_[block.period], at, count, salt + block.from * count);
    at += count * bytes_;
  }
  return wrong;
}

std::uint64_t Pattern::wrong_in(const Period &period, const std::byte *at, std::size_t count,
                                std::uint64_t salt) const {
  std::uint64_t wrong = 0;
  std::size_t from = salt % kPeriod;
  while (count > 0) {
    const std::size_t run = std::min(count, kPeriod - from);
    if (std::memcmp(at, &period[from * bytes_], run * bytes_) != 0)
      for (std::size_t i = 0; i < run; ++i)
        wrong += std::memcmp(at + i * bytes_, &period[(from + i) * bytes_], bytes_) != 0 ? 1 : 0;
    at += run * bytes_;
    count -= run;
    from = 0;
  }
  return wrong;
}

}  // namespace tutti::perf

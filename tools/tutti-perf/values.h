// SPDX-License-Identifier: BSD-3-Clause
//
// One element: what each rank puts in and what must come out, worked out here from the definition of the operator.
// Invariant: the right result is exact in every type, whatever the order of the operands and wherever partial results
// are rounded (user-defined operators apart, which do not commute: theirs is that of the order of ranks). No partial
// result is a zero that could have either sign.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tutti-perf/elements.h"
#include "tutti-perf/made_operator.h"

namespace tutti::perf {

// The two 16-bit formats: bits of fraction, exponent of the least normal number.
template <int kFraction, int kLeast>
struct Float16Bits {
  static constexpr int kFractionBits = kFraction;
  std::uint16_t bits;
};
using Float16 = Float16Bits<10, -14>;
using Bfloat16 = Float16Bits<7, -126>;

template <class T>
struct ValueIndex {
  T value;
  int index;
};

// Which kind of type T is, and how many integers from 0 up it holds without gaps (2^digits).
template <class T>
inline constexpr bool kHas16Bits = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;
template <class T>
inline constexpr bool kIsComplex = false;
template <class T>
inline constexpr bool kIsComplex<std::complex<T>> = true;
template <class T>
inline constexpr bool kIsPair = false;
template <class T>
inline constexpr bool kIsPair<ValueIndex<T>> = true;
template <class T>
constexpr int digits() {
  if constexpr (kHas16Bits<T>) return T::kFractionBits + 1;
  else if constexpr (kIsComplex<T>) return std::numeric_limits<typename T::value_type>::digits;
  else return std::numeric_limits<T>::digits;
}

// A 64-bit mix (the finaliser of splitmix64): neighbouring ranks and elements get unrelated values.
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A number as T, to nearest even. Of 16 bits: normal numbers only, which is all that comes up here.
template <class T>
T number(double x) {
  if constexpr (kHas16Bits<T>) {
    int exponent = 0;
    std::frexp(x, &exponent);  // |x| is in [2^(exponent-1), 2^exponent)
    if (x == 0) return {0};
    const double units = std::nearbyint(std::ldexp(std::fabs(x), T::kFractionBits + 1 - exponent));
    const int bias = (1 << (14 - T::kFractionBits)) - 1;
    const int magnitude = ((exponent - 2 + bias) << T::kFractionBits) + static_cast<int>(units);
    return {static_cast<std::uint16_t>((x < 0 ? 0x8000 : 0) | magnitude)};
  } else {
    return static_cast<T>(x);
  }
}

struct Where {
  const Operator &op;
  int ranks;
  int rank;
  std::size_t element;

  std::uint64_t bits() const { return mix(mix(element) + static_cast<std::uint64_t>(rank)); }
  // The ranks in another order for each element: those that come first contribute where all cannot, exactly.
  int turn() const {
    return static_cast<int>((mix(element) + static_cast<std::uint64_t>(rank)) % static_cast<std::uint64_t>(ranks));
  }
};

// Real values of floating and complex types, as exact numbers. Sums of 8 times as many integers up to 4, doubled by
// factors at most, stay exact in every type.
template <class T>
double real_value(const Where &where, std::uint64_t bits) {
  const int sign = (bits & 1) != 0 ? 1 : -1;
  const auto integer = [&](int most) {
    return sign * static_cast<int>(1 + (bits >> 1) % static_cast<std::uint64_t>(most));
  };
  if (where.op.id == TUTTI_PROD) return where.turn() == 0 ? 2 * sign : sign;
  if (where.op.id == TUTTI_MIN || where.op.id == TUTTI_MAX) return integer(1 << std::min(digits<T>(), 20));
  const bool contributes = where.turn() < 1 << std::min(digits<T>() - 3, 30);
  return contributes ? integer(4) : 0;
}

template <class T>
T complex_value(const Where &where) {
  using Part = typename T::value_type;
  if (where.op.id == TUTTI_PROD) {
    // Powers of 2 + i and 2 - i have no zero part, but where they meet in a positive number.
    if (where.turn() >= 8) return T(1, 0);
    return T(2, (where.bits() & 1) != 0 ? Part(1) : Part(-1));
  }
  return T(static_cast<Part>(real_value<T>(where, where.bits())),
           static_cast<Part>(real_value<T>(where, mix(where.bits()))));
}

template <class T>
T pair_value(const Where &where) {
  T pair;
  // Few values, so that the index often decides.
  pair.value = static_cast<decltype(T::value)>(1 + static_cast<int>(where.bits() % 5));
  pair.index = static_cast<int>(where.bits() >> 32 & 0xFFFF);
  return pair;
}

template <class T>
T integer_value(const Where &where) {
  const std::uint64_t bits = where.bits();
  switch (where.op.id) {
    case TUTTI_PROD: return static_cast<T>(bits | 1);  // never zero, after which nothing else would be seen
    case TUTTI_LAND:
    case TUTTI_LOR:
    case TUTTI_LXOR: return static_cast<T>(bits % 3);
    default: return static_cast<T>(bits);
  }
}

// What a rank puts in.
template <class T>
T value(const Where &where) {
  if constexpr (kIsPair<T>) return pair_value<T>(where);
  else if constexpr (kIsComplex<T>) return complex_value<T>(where);
  else if constexpr (std::is_integral_v<T>) return integer_value<T>(where);
  else return number<T>(real_value<T>(where, where.bits()));
}

template <class T>
T combine_integers(const Operator &op, T a, T b) {
  // Unsigned, where overflow is defined, and 64 bits wide, which nothing is promoted past.
  using Bits = std::make_unsigned_t<T>;
  const std::uint64_t x = static_cast<Bits>(a), y = static_cast<Bits>(b);
  switch (op.id) {
    case TUTTI_PROD: return static_cast<T>(x * y);
    case TUTTI_MIN: return std::min(a, b);
    case TUTTI_MAX: return std::max(a, b);
    case TUTTI_LAND: return x != 0 && y != 0;
    case TUTTI_LOR: return x != 0 || y != 0;
    case TUTTI_LXOR: return (x != 0) != (y != 0);
    case TUTTI_BAND: return static_cast<T>(x & y);
    case TUTTI_BOR: return static_cast<T>(x | y);
    case TUTTI_BXOR: return static_cast<T>(x ^ y);
    default: return static_cast<T>(x + y);
  }
}

template <class T>
T expected_integer(const Where &where, int last) {
  __extension__ __int128 sum = 0;  // for the mean, which no overflow may change
  T total{};
  for (int rank = where.rank; rank < last; ++rank) {
    const T mine = value<T>({where.op, where.ranks, rank, where.element});
    sum += mine;
    const T scaled = where.op.made == Made::premul_sum
                         ? static_cast<T>(static_cast<std::uint64_t>(mine) * premul_factor(rank))
                         : mine;
    total = rank == where.rank ? scaled : combine_integers(where.op, total, scaled);
  }
  if (where.op.id == TUTTI_AVG) return static_cast<T>(sum / where.ranks);
  return total;
}

template <class T>
T expected_floating(const Where &where, int last) {
  double total = 0;
  for (int rank = where.rank; rank < last; ++rank) {
    const Where there = {where.op, where.ranks, rank, where.element};
    double mine = real_value<T>(there, there.bits());
    if (where.op.made == Made::premul_sum) mine *= premul_factor(rank);
    if (rank == where.rank) total = mine;
    else if (where.op.id == TUTTI_PROD) total *= mine;
    else if (where.op.id == TUTTI_MIN) total = std::min(total, mine);
    else if (where.op.id == TUTTI_MAX) total = std::max(total, mine);
    else total += mine;
  }
  return number<T>(where.op.id == TUTTI_AVG ? total / where.ranks : total);
}

template <class T>
T expected_complex(const Where &where, int last) {
  std::complex<double> total;
  for (int rank = where.rank; rank < last; ++rank) {
    std::complex<double> mine(value<T>({where.op, where.ranks, rank, where.element}));
    if (where.op.made == Made::premul_sum) mine *= premul_factor(rank);
    if (rank == where.rank) total = mine;
    else if (where.op.id == TUTTI_PROD) total *= mine;
    else total += mine;
  }
  return T(where.op.id == TUTTI_AVG ? total / static_cast<double>(where.ranks) : total);
}

template <class T>
T expected_pair(const Where &where, int last) {
  T best = value<T>(where);
  for (int rank = where.rank + 1; rank < last; ++rank) {
    const T next = value<T>({where.op, where.ranks, rank, where.element});
    const bool better = where.op.id == TUTTI_MINLOC ? next.value < best.value : next.value > best.value;
    if (better || (next.value == best.value && next.index < best.index)) best = next;
  }
  return best;
}

// What a reduction over the ranks from where.rank to before `last` must give. (avg is over all.)
template <class T>
T expected(const Where &where, int last) {
  if constexpr (kIsPair<T>) return expected_pair<T>(where, last);
  else if constexpr (kIsComplex<T>) return expected_complex<T>(where, last);
  else if constexpr (std::is_integral_v<T>) return expected_integer<T>(where, last);
  else return expected_floating<T>(where, last);
}

// As bytes. What C leaves unused in a pair is 0, as results have it.
template <class T>
void put(std::byte *to, const T &value) {
  if constexpr (kIsPair<T>) {
    std::memset(to, 0, sizeof(T));
    std::memcpy(to + offsetof(T, value), &value.value, sizeof(value.value));
    std::memcpy(to + offsetof(T, index), &value.index, sizeof(value.index));
  } else {
    std::memcpy(to, &value, sizeof(T));
  }
}

// The same two with an operator of the program's own, which takes bytes of any type.
inline void put_user_value(std::byte *to, std::size_t bytes, const Where &where) {
  std::uint64_t bits[2] = {where.bits(), mix(where.bits())};
  for (std::uint64_t &word : bits) word |= kUserOperatorValid;
  std::memcpy(to, bits, bytes);
}
inline void put_user_expected(std::byte *to, std::size_t bytes, const Where &where, int last) {
  put_user_value(to, bytes, {where.op, where.ranks, last - 1, where.element});
  for (int rank = last - 2; rank >= where.rank; --rank) {
    std::byte before[sizeof(std::uint64_t[2])];
    put_user_value(before, bytes, {where.op, where.ranks, rank, where.element});
    user_operator(before, to, bytes);
  }
}

}  // namespace tutti::perf

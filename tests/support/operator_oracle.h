// SPDX-License-Identifier: BSD-3-Clause
//
// The rules of docs/OPERATORS.md, one element at a time and with nothing of the library but its constants: what kernels
// and collectives are compared with. Written for being obviously right, not fast.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::test {

// The two 16-bit formats: how many bits of fraction, and the exponent of the least normal number.
template <int kFraction, int kLeast>
struct Half {
  std::uint16_t bits;

  static Half from_bits(unsigned bits) { return {static_cast<std::uint16_t>(bits)}; }
  double value() const {
    const int exponent = (bits & 0x7FFF) >> kFraction, fraction = bits & ((1 << kFraction) - 1);
    const int top = (1 << (15 - kFraction)) - 1;
    double magnitude = std::ldexp(fraction + (1 << kFraction), exponent - 1 + kLeast - kFraction);
    if (exponent == 0) magnitude = std::ldexp(fraction, kLeast - kFraction);
    if (exponent == top)
      magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
  // To nearest even.
  static Half nearest(double x) {
    const unsigned top = ((1u << (15 - kFraction)) - 1) << kFraction, sign = std::signbit(x) ? 0x8000 : 0;
    if (std::isnan(x)) return from_bits(top | 1u << (kFraction - 1));  // the canonical one
    if (x == 0) return from_bits(sign);
    if (std::isinf(x)) return from_bits(sign | top);
    int exponent = 0;
    std::frexp(x, &exponent);  // |x| is in [2^(exponent-1), 2^exponent)
    const int unit = std::max(exponent - 1, kLeast) - kFraction;
    const double units = std::nearbyint(std::ldexp(std::fabs(x), -unit));
    // In steps of units the bits of a format count up through subnormal and normal numbers to infinity.
    const double below = static_cast<double>(std::max(exponent - 1, kLeast) - kLeast) * (1 << kFraction);
    return from_bits(sign | static_cast<unsigned>(std::min(units + below, static_cast<double>(top))));
  }
};
using Float16 = Half<10, -14>;
using Bfloat16 = Half<7, -126>;
template <class T>
inline constexpr bool is_half = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

template <class T>
struct Pair {
  T value;
  int index;
};
template <class T>
inline constexpr bool is_pair = false;
template <class T>
inline constexpr bool is_pair<Pair<T>> = true;
template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<std::complex<T>> = true;

// Calls body(T()) for the C++ type of a public one that has a size.
template <class Body>
auto with_type(tutti_type type, const Body &body) {
  switch (type) {
    case TUTTI_INT8: return body(std::int8_t());
    case TUTTI_UINT8: return body(std::uint8_t());
    case TUTTI_INT16: return body(std::int16_t());
    case TUTTI_UINT16: return body(std::uint16_t());
    case TUTTI_INT32: return body(std::int32_t());
    case TUTTI_UINT32: return body(std::uint32_t());
    case TUTTI_INT64: return body(std::int64_t());
    case TUTTI_UINT64: return body(std::uint64_t());
    case TUTTI_FLOAT: return body(float());
    case TUTTI_DOUBLE: return body(double());
    case TUTTI_FLOAT16: return body(Float16());
    case TUTTI_BFLOAT16: return body(Bfloat16());
    case TUTTI_COMPLEX_FLOAT: return body(std::complex<float>());
    case TUTTI_COMPLEX_DOUBLE: return body(std::complex<double>());
    case TUTTI_FLOAT_INT: return body(Pair<float>());
    case TUTTI_DOUBLE_INT: return body(Pair<double>());
    case TUTTI_LONG_INT: return body(Pair<long>());
    case TUTTI_2INT: return body(Pair<int>());
    case TUTTI_SHORT_INT: return body(Pair<short>());
    default: return body(std::uint8_t());  // bool, byte
  }
}

inline const std::vector<tutti_op> &operators_of(tutti_type type) {
  static const std::vector<tutti_op> integer = {TUTTI_SUM, TUTTI_PROD, TUTTI_MIN,  TUTTI_MAX, TUTTI_AVG, TUTTI_LAND,
                                                TUTTI_LOR, TUTTI_LXOR, TUTTI_BAND, TUTTI_BOR, TUTTI_BXOR};
  static const std::vector<tutti_op> floating = {TUTTI_SUM, TUTTI_PROD, TUTTI_MIN, TUTTI_MAX, TUTTI_AVG};
  static const std::vector<tutti_op> complex = {TUTTI_SUM, TUTTI_PROD, TUTTI_AVG};
  static const std::vector<tutti_op> logical = {TUTTI_LAND, TUTTI_LOR, TUTTI_LXOR};
  static const std::vector<tutti_op> bitwise = {TUTTI_BAND, TUTTI_BOR, TUTTI_BXOR};
  static const std::vector<tutti_op> located = {TUTTI_MINLOC, TUTTI_MAXLOC};
  if (type <= TUTTI_UINT64) return integer;
  if (type <= TUTTI_BFLOAT16) return floating;
  if (type <= TUTTI_COMPLEX_DOUBLE) return complex;
  if (type == TUTTI_BOOL) return logical;
  if (type == TUTTI_BYTE) return bitwise;
  return located;
}

template <class T>
T from_bits(std::uint64_t bits) {
  static_assert(sizeof(T) <= sizeof(bits));
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class T>
T quiet_nan() {
  return sizeof(T) == 4 ? from_bits<T>(0x7FC00000u) : from_bits<T>(0x7FF8000000000000u);
}

template <class T>
T canonical(T value) {
  return std::isnan(value) ? quiet_nan<T>() : value;
}

// Whether a stands before b where -0 stands before +0. Neither is NaN.
template <class T>
bool before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (a == b) return std::signbit(a) && !std::signbit(b);
  return a < b;
}

template <class T>
T combine_real(tutti_op op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return quiet_nan<T>();
    if (op == TUTTI_SUM) return canonical(a + b);
    if (op == TUTTI_PROD) return canonical(a * b);
    if (op == TUTTI_MIN) return before(b, a) ? b : a;
    return before(a, b) ? b : a;
  } else {
    __extension__ using Wide = unsigned __int128;
    switch (op) {
      case TUTTI_SUM: return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
      case TUTTI_PROD: return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
      case TUTTI_MIN: return a < b ? a : b;
      case TUTTI_MAX: return a > b ? a : b;
      case TUTTI_LAND: return a != 0 && b != 0 ? 1 : 0;
      case TUTTI_LOR: return a != 0 || b != 0 ? 1 : 0;
      case TUTTI_LXOR: return (a != 0) != (b != 0) ? 1 : 0;
      case TUTTI_BAND: return static_cast<T>(a & b);
      case TUTTI_BOR: return static_cast<T>(a | b);
      default: return static_cast<T>(a ^ b);
    }
  }
}

template <class T>
Pair<T> combine_pairs(tutti_op op, const Pair<T> &a, const Pair<T> &b) {
  bool a_nan = false, b_nan = false;
  if constexpr (std::is_floating_point_v<T>) a_nan = std::isnan(a.value), b_nan = std::isnan(b.value);
  const bool same = a_nan || b_nan ? a_nan && b_nan : !before(a.value, b.value) && !before(b.value, a.value);
  bool take_b = b_nan;
  if (!a_nan && !b_nan) take_b = op == TUTTI_MINLOC ? before(b.value, a.value) : before(a.value, b.value);
  if (same) take_b = b.index < a.index;
  Pair<T> result = take_b ? b : a;
  if constexpr (std::is_floating_point_v<T>) result.value = canonical(result.value);
  return result;
}

template <class T>
T combine(tutti_op op, const T &a, const T &b) {
  if constexpr (is_half<T>) {
    // Sums and products are exact in double, or far enough from a tie.
    return T::nearest(combine_real(op, a.value(), b.value()));
  } else if constexpr (is_complex<T>) {
    using Part = typename T::value_type;
    if (op == TUTTI_SUM) return T(canonical(a.real() + b.real()), canonical(a.imag() + b.imag()));
    const Part ac = a.real() * b.real(), bd = a.imag() * b.imag(), ad = a.real() * b.imag(), bc = a.imag() * b.real();
    return T(canonical(ac - bd), canonical(ad + bc));
  } else if constexpr (is_pair<T>) {
    return combine_pairs(op, a, b);
  } else {
    return combine_real(op, a, b);
  }
}

// A combined element as bytes: what C leaves unused in a pair is 0.
template <class T>
void put(void *to, const T &value) {
  if constexpr (is_pair<T>) {
    auto *bytes = static_cast<std::uint8_t *>(to);
    std::memset(bytes, 0, sizeof(T));
    std::memcpy(bytes + offsetof(T, value), &value.value, sizeof(value.value));
    std::memcpy(bytes + offsetof(T, index), &value.index, sizeof(value.index));
  } else {
    std::memcpy(to, &value, sizeof(T));
  }
}

// Type-erased: *out = *a op *b.
inline void oracle(tutti_type type, tutti_op op, void *out, const void *a, const void *b) {
  with_type(type, [&]<class T>(T) {
    T x, y;
    std::memcpy(&x, a, sizeof(T));
    std::memcpy(&y, b, sizeof(T));
    put(out, combine(op, x, y));
  });
}

// Values at which something changes: zeros, ends of the range, infinities, subnormals, NaNs of every kind.
template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  if constexpr (is_half<T>) {
    const unsigned top = T::nearest(INFINITY).bits;
    std::vector<T> values;
    for (const unsigned bits : {0u, 1u, 2u, 0x3FFu, 0x400u, 0x7Fu, 0x80u, unsigned(T::nearest(1).bits),
                                unsigned(T::nearest(1).bits) + 1, unsigned(T::nearest(3).bits), top - 1, top - 2, top,
                                top | 1, unsigned(T::nearest(NAN).bits), unsigned(T::nearest(NAN).bits) | 3})
      values.insert(values.end(), {T::from_bits(bits), T::from_bits(bits | 0x8000)});
    return values;
  } else if constexpr (is_complex<T>) {
    using Part = typename T::value_type;
    std::vector<T> values;
    const std::vector<Part> parts = {Part(0),
                                     Part(-0.0),
                                     Part(1.5),
                                     Part(-3),
                                     std::numeric_limits<Part>::infinity(),
                                     quiet_nan<Part>(),
                                     std::numeric_limits<Part>::max(),
                                     std::numeric_limits<Part>::denorm_min()};
    for (const Part re : parts)
      for (const Part im : parts) values.emplace_back(re, im);
    return values;
  } else if constexpr (is_pair<T>) {
    std::vector<T> values;
    for (const auto value : special_values<decltype(T::value)>())
      for (const int index : {0, 5, -1, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
        T pair;
        std::memset(&pair, values.size() % 2 == 0 ? 0 : 0xA5, sizeof(pair));  // padding may hold anything
        pair.value = value;
        pair.index = index;
        values.push_back(pair);
      }
    return values;
  } else {
    std::vector<T> values = {T(0), T(1), Limits::max(), Limits::lowest(), T(Limits::max() / 2), T(3)};
    if constexpr (std::is_signed_v<T>) values.push_back(T(-1));
    if constexpr (std::is_floating_point_v<T>) {
      const T subnormal = Limits::denorm_min(), infinity = Limits::infinity(), smallest = Limits::min();
      for (const T value : {T(0), subnormal, smallest, infinity}) values.insert(values.end(), {value, -value});
      const std::uint64_t sign = std::uint64_t{1} << (8 * sizeof(T) - 1);
      const std::uint64_t quiet = sizeof(T) == 4 ? 0x7FC00000u : 0x7FF8000000000000u;
      const std::uint64_t signalling = sizeof(T) == 4 ? 0x7F800001u : 0x7FF0000000000001u;
      for (const std::uint64_t bits : {quiet, quiet | 0x1234, signalling})
        values.insert(values.end(), {from_bits<T>(bits), from_bits<T>(bits | sign)});
    }
    return values;
  }
}

}  // namespace tutti::test

// SPDX-License-Identifier: BSD-3-Clause
//
// Element types and operators for C++20, and what is a buffer of them: the first part of tutti.hpp, which includes it.
#ifndef TUTTI_ELEMENTS_HPP
#define TUTTI_ELEMENTS_HPP

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <type_traits>

#include "tutti/tutti.h"

namespace tutti {
inline namespace v0 {

enum class Op : tutti_op {
  sum = TUTTI_SUM,
  prod = TUTTI_PROD,
  min = TUTTI_MIN,
  max = TUTTI_MAX,
  avg = TUTTI_AVG,
  land = TUTTI_LAND,
  lor = TUTTI_LOR,
  lxor = TUTTI_LXOR,
  band = TUTTI_BAND,
  bor = TUTTI_BOR,
  bxor = TUTTI_BXOR,
  minloc = TUTTI_MINLOC,
  maxloc = TUTTI_MAXLOC
};

// 16-bit floats where the compiler has no type for them: their bits, to be handed on. Compilers that have _Float16 and
// __bf16 need no such thing.
enum class Float16 : std::uint16_t {};
enum class Bfloat16 : std::uint16_t {};

// Elements of minloc and maxloc: T is float, double, long, int or short.
template <class T>
struct ValueIndex {
  T value;
  int index;
  bool operator==(const ValueIndex &) const = default;
};

namespace detail {

template <class T>
consteval tutti_type integer_type() {
  switch (sizeof(T)) {
    case 1: return std::is_signed_v<T> ? TUTTI_INT8 : TUTTI_UINT8;
    case 2: return std::is_signed_v<T> ? TUTTI_INT16 : TUTTI_UINT16;
    case 4: return std::is_signed_v<T> ? TUTTI_INT32 : TUTTI_UINT32;
    case 8: return std::is_signed_v<T> ? TUTTI_INT64 : TUTTI_UINT64;
    default: return -1;
  }
}

// A type and its number; the first that is T counts.
template <class T, tutti_type kType>
struct Row {
  using type = T;
  static constexpr tutti_type value = kType;
};
template <class T, class... Rows>
consteval tutti_type find_row() {
  tutti_type found = -1;
  static_cast<void>(((std::is_same_v<T, typename Rows::type> && (found = Rows::value, true)) || ...));
  return found;
}

template <class T>
consteval tutti_type type_of() {
  const tutti_type found =
      find_row<T, Row<float, TUTTI_FLOAT>, Row<double, TUTTI_DOUBLE>, Row<bool, TUTTI_BOOL>, Row<std::byte, TUTTI_BYTE>,
               Row<Float16, TUTTI_FLOAT16>, Row<Bfloat16, TUTTI_BFLOAT16>,
#if defined(__FLT16_MANT_DIG__)
               Row<_Float16, TUTTI_FLOAT16>,
#endif
#if defined(__BFLT16_MANT_DIG__) || defined(__STDCPP_BFLOAT16_T__)
               Row<__bf16, TUTTI_BFLOAT16>,
#endif
               Row<std::complex<float>, TUTTI_COMPLEX_FLOAT>, Row<std::complex<double>, TUTTI_COMPLEX_DOUBLE>,
               Row<ValueIndex<float>, TUTTI_FLOAT_INT>, Row<ValueIndex<double>, TUTTI_DOUBLE_INT>,
               Row<ValueIndex<long>, TUTTI_LONG_INT>, Row<ValueIndex<int>, TUTTI_2INT>,
               Row<ValueIndex<short>, TUTTI_SHORT_INT>>();
  if (found >= 0) return found;
  // The character types have a size but no arithmetic of their own; plain char is taken as the 8-bit integer that it is
  // on this machine.
  if constexpr (std::is_same_v<T, wchar_t> || std::is_same_v<T, char8_t> || std::is_same_v<T, char16_t> ||
                std::is_same_v<T, char32_t>)
    return -1;
  else if constexpr (std::is_integral_v<T>) return integer_type<T>();
  else return -1;
}

static_assert(sizeof(bool) == 1 && sizeof(long) == 8, "the library's bool has one byte, its long eight");

}  // namespace detail

// The element type of T, or -1 if Tutti has none.
template <class T>
inline constexpr tutti_type type_of = detail::type_of<std::remove_cv_t<T>>();

// What a collective reads.
template <class R>
concept Buffer =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && type_of<std::ranges::range_value_t<R>>
>= 0;

// What a collective writes: elements can be assigned, and a temporary must be a view (a span), or the result would be
// lost with it.
template <class R>
concept OutputBuffer = Buffer<R> && std::ranges::borrowed_range<R> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

// What a reduction reads and writes: with an operator of the program's own, elements of any type that travels as bytes.
template <class R>
concept ReductionBuffer = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<R>>;
template <class R>
concept ReductionOutput = ReductionBuffer<R> && std::ranges::borrowed_range<R> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

}  // namespace v0
}  // namespace tutti

#endif

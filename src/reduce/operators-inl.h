// SPDX-License-Identifier: BSD-3-Clause
//
// The operators on vectors, once per instruction set: included anew for each by foreach_target. The rules of kernels.h
// hold lane by lane, so a vector of one lane is the scalar code, and there is no other. The fallback without vectors
// (HWY_SCALAR) has its own, since Highway's one-lane type cannot load bytes.
#if defined(TUTTI_REDUCE_OPERATORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_OPERATORS_INL_H
#undef TUTTI_REDUCE_OPERATORS_INL_H
#else
#define TUTTI_REDUCE_OPERATORS_INL_H
#endif

#include <hwy/highway.h>

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Bits of the canonical quiet NaN: sign clear, only the quiet bit of the fraction set.
template <class T>
using Bits = hwy::MakeUnsigned<T>;
template <class T>
constexpr Bits<T> kQuietNan = sizeof(T) == 4 ? Bits<T>(0x7FC00000u) : Bits<T>(0x7FF8000000000000u);

#if HWY_TARGET == HWY_SCALAR

template <class T>
HWY_INLINE T canonical(T value) {
  if constexpr (hwy::IsFloat<T>()) {
    if (value != value) hwy::CopySameSize(&kQuietNan<T>, &value);
  }
  return value;
}

// Integers are computed unsigned and at least 32 bits wide: signed overflow, also of promoted operands, is undefined.
template <class T, class Compute>
HWY_INLINE T arithmetic(T a, T b, const Compute &compute) {
  if constexpr (hwy::IsFloat<T>()) {
    return canonical(compute(a, b));
  } else {
    using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    return static_cast<T>(compute(static_cast<Wide>(a), static_cast<Wide>(b)));
  }
}

// Whether a stands before b; -0 before +0. Neither is NaN.
template <class T>
HWY_INLINE bool before(T a, T b) {
  if constexpr (hwy::IsFloat<T>()) {
    if (a == b) return __builtin_signbit(a) != 0 && __builtin_signbit(b) == 0;
  }
  return a < b;
}

struct Sum {
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    return arithmetic(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Prod {
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    return arithmetic(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct Min {
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    if (a != a || b != b) return canonical(a + b);
    return before(b, a) ? b : a;
  }
};
struct Max {
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    if (a != a || b != b) return canonical(a + b);
    return before(a, b) ? b : a;
  }
};

#else

template <class D>
HWY_INLINE hn::Vec<D> quiet_nan(D d) {
  return hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), kQuietNan<hn::TFromD<D> >));
}

// A NaN computed from two NaNs has the payload of the first on x86: one NaN for all hides the order of operands.
template <class D, class V>
HWY_INLINE V canonical(D d, V value) {
  if constexpr (hwy::IsFloat<hn::TFromD<D> >()) return hn::IfThenElse(hn::IsNaN(value), quiet_nan(d), value);
  return value;
}

// `value` where both operands are numbers.
template <class D, class V>
HWY_INLINE V unless_nan(D d, V a, V b, V value) {
  return hn::IfThenElse(hn::And(hn::Eq(a, a), hn::Eq(b, b)), value, quiet_nan(d));
}

// No instruction set multiplies bytes: the 16-bit product of two pairs has the low one's product in its low byte, and
// with the low byte of one operand cleared, the high one's in its high byte.
template <class D, class V>
HWY_INLINE V multiply_bytes(D d, V a, V b) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    const unsigned product = unsigned(hn::GetLane(a)) * unsigned(hn::GetLane(b));
    return hn::Set(d, static_cast<std::uint8_t>(product));
  } else {
    const hn::Repartition<std::uint16_t, D> d16;
    const auto low_bytes = hn::Set(d16, std::uint16_t(0x00FF));
    const auto a16 = hn::BitCast(d16, a), b16 = hn::BitCast(d16, b);
    const auto low = hn::And(hn::Mul(a16, b16), low_bytes);
    const auto high = hn::Mul(hn::AndNot(low_bytes, a16), hn::ShiftRight<8>(b16));
    return hn::BitCast(d, hn::Or(low, high));
  }
}

// Integers are computed unsigned: the bits are the same, and wrapping is defined in every implementation.
struct Sum {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D> >()) {
      return canonical(d, hn::Add(a, b));
    } else {
      const hn::RebindToUnsigned<D> bits;
      return hn::BitCast(d, hn::Add(hn::BitCast(bits, a), hn::BitCast(bits, b)));
    }
  }
};
struct Prod {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D> >()) {
      return canonical(d, hn::Mul(a, b));
    } else {
      const hn::RebindToUnsigned<D> bits;
      const auto x = hn::BitCast(bits, a), y = hn::BitCast(bits, b);
      if constexpr (sizeof(hn::TFromD<D>) == 1) return hn::BitCast(d, multiply_bytes(bits, x, y));
      else return hn::BitCast(d, hn::Mul(x, y));
    }
  }
};
// Instruction sets differ in what min(-0, +0) and min(NaN, x) are, so neither is left to them: of equal operands, which
// differ at most in the sign of a zero, OR keeps the sign and AND clears it.
struct Min {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D> >())
      return unless_nan(d, a, b, hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), hn::Min(a, b)));
    else return hn::Min(a, b);
  }
};
struct Max {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D> >())
      return unless_nan(d, a, b, hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), hn::Max(a, b)));
    else return hn::Max(a, b);
  }
};

#endif

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

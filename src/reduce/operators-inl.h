// SPDX-License-Identifier: BSD-3-Clause
//
// The operators on vectors of one type of lanes, once per instruction set: included anew for each by foreach_target.
// The rules of docs/OPERATORS.md hold lane by lane, so a vector of one lane is the scalar code, and there is no other.
#if defined(TUTTI_REDUCE_OPERATORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_OPERATORS_INL_H
#undef TUTTI_REDUCE_OPERATORS_INL_H
#else
#define TUTTI_REDUCE_OPERATORS_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Highway's fallback without vectors cannot load bytes, and no CPU that this is built for needs it.
static_assert(HWY_TARGET != HWY_SCALAR, "build with a baseline that has vectors, or with Highway's HWY_EMU128");

// Bits of the canonical quiet NaN: sign clear, only the quiet bit of the fraction set.
template <class T>
using Bits = hwy::MakeUnsigned<T>;
template <class T>
constexpr Bits<T> kQuietNan = sizeof(T) == 4 ? Bits<T>(0x7FC00000u) : Bits<T>(0x7FF8000000000000u);

template <class T>
constexpr Bits<T> kInfinity = sizeof(T) == 4 ? Bits<T>(0x7F800000u) : Bits<T>(0x7FF0000000000000u);

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
// Floating lanes only. kLargest: bits of the largest number that the result may be, where `a` is finite.
template <std::uint64_t kLargest>
struct Mean {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    using T = hn::TFromD<D>;
    const hn::RebindToUnsigned<D> bits;
    const V quotient = canonical(d, hn::Div(a, b));
    const V infinity = hn::BitCast(d, hn::Set(bits, kInfinity<T>));
    const V largest = hn::BitCast(d, hn::Set(bits, static_cast<Bits<T> >(kLargest)));
    const auto too_large = hn::And(hn::Lt(hn::Abs(a), infinity), hn::Gt(hn::Abs(quotient), largest));
    return hn::IfThenElse(too_large, hn::CopySign(largest, quotient), quotient);
  }
};

// Every integer but 0 is true; the result is 0 or 1.
struct LogicalAnd {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    const V zero = hn::Zero(d);
    return hn::IfThenZeroElse(hn::Or(hn::Eq(a, zero), hn::Eq(b, zero)), hn::Set(d, 1));
  }
};
struct LogicalOr {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return hn::IfThenZeroElse(hn::Eq(hn::Or(a, b), hn::Zero(d)), hn::Set(d, 1));
  }
};
struct LogicalXor {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    const V zero = hn::Zero(d);
    return hn::IfThenElseZero(hn::Xor(hn::Eq(a, zero), hn::Eq(b, zero)), hn::Set(d, 1));
  }
};

struct BitAnd {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::And(a, b);
  }
};
struct BitOr {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Or(a, b);
  }
};
struct BitXor {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Xor(a, b);
  }
};

// (a + bi)(c + di) = (ac - bd) + (ad + bc)i, each product and each sum rounded once, on lanes that alternate between
// real and imaginary parts. Exchanging the operands exchanges the terms of commutative operations only.
struct ComplexProd {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    if constexpr (hn::MaxLanes(D()) == 1) {
      return a;  // half an element: instantiated, never run
    } else {
      const V straight = hn::Mul(hn::DupEven(a), b);                 // ac, ad
      const V crossed = hn::Mul(hn::DupOdd(a), hn::Reverse2(d, b));  // bd, bc
      return canonical(d, hn::OddEven(hn::Add(straight, crossed), hn::Sub(straight, crossed)));
    }
  }
};

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

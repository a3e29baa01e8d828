// SPDX-License-Identifier: BSD-3-Clause
//
// 16-bit floating types: computed in float, rounded back to nearest even once per operation. Conversions are integer
// arithmetic, and so the same on every instruction set; where there are instructions with the same results, those.
// Float has at least 2p + 2 bits for the p of a 16-bit format, so rounding a sum or product to float first does not
// change what it is rounded to then (Figueroa, When is double rounding innocuous?, 1995).
#if defined(TUTTI_REDUCE_FLOAT16_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_FLOAT16_INL_H
#undef TUTTI_REDUCE_FLOAT16_INL_H
#else
#define TUTTI_REDUCE_FLOAT16_INL_H
#endif

#include "reduce/operators-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

// Whether this instruction set converts float16 itself, rounding to nearest even whatever the process's mode is (F16C).
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
constexpr bool kConvertsFloat16 = true;
#else
constexpr bool kConvertsFloat16 = false;
#endif

// A format widens the low 16 bits of each 32-bit lane (the others are 0) to float, and narrows back. NaNs are
// canonical before they are narrowed.
struct Bfloat16 {
  static constexpr bool kInstructions = false;
  static constexpr std::uint64_t kLargest = 0x7F7F0000;  // as float
  template <class D32, class V>
  static HWY_INLINE auto widen(D32 d, V low) {
    return hn::BitCast(hn::RebindToFloat<D32>(), hn::ShiftLeft<16>(hn::BitCast(d, low)));
  }
  template <class D32, class F>
  static HWY_INLINE hn::Vec<D32> narrow(D32 d, F value) {
    const auto bits = hn::BitCast(d, value);
    // To nearest; the last bit kept decides ties. Carries go into the exponent, at last to infinity; the canonical NaN
    // has nothing to carry.
    const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
    return hn::ShiftRight<16>(hn::Add(bits, hn::Add(last, hn::Set(d, 0x7FFFu))));
  }
};

struct Float16 {
  static constexpr bool kInstructions = kConvertsFloat16;
  static constexpr std::uint64_t kLargest = 0x477FE000;  // 65504 as float
  template <class D32, class V>
  static HWY_INLINE auto widen(D32 d, V low) {
    const hn::RebindToFloat<D32> df;
    const auto sign = hn::ShiftLeft<16>(hn::And(low, hn::Set(d, 0x8000u)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(low, hn::Set(d, 0x7FFFu)));
    // Float's exponent is 2^112 times that of a 16-bit number with the same bits. The product is exact, also for
    // subnormal ones, which are normal in float; infinities and NaNs would become finite and get their exponent back.
    // (A process that treats subnormals as zero would lose subnormal operands here, so they take the second way.)
    const auto exponent = hn::And(magnitude, hn::Set(d, 0x0F800000u));
    const auto rebased = hn::Add(magnitude, hn::Set(d, 112u << 23));
    const auto special = hn::Add(rebased, hn::Set(d, 112u << 23));
    // A subnormal: put its fraction below a one of the least normal exponent, and subtract that one.
    const auto one = hn::Set(d, 113u << 23);
    const auto subnormal = hn::BitCast(d, hn::Sub(hn::BitCast(df, hn::Add(magnitude, one)), hn::BitCast(df, one)));
    const auto normal = hn::IfThenElse(hn::Eq(exponent, hn::Set(d, 0x0F800000u)), special, rebased);
    return hn::BitCast(df, hn::Or(sign, hn::IfThenElse(hn::Eq(exponent, hn::Zero(d)), subnormal, normal)));
  }
  template <class D32, class F>
  static HWY_INLINE hn::Vec<D32> narrow(D32 d, F value) {
    const hn::RebindToFloat<D32> df;
    const hn::RebindToSigned<D32> di;
    const auto bits = hn::BitCast(d, value);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000u));
    const auto magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFFu));
    // Normal results: rebase the exponent, round as above.
    const auto last = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1u));
    const auto rounded = hn::Add(hn::Sub(magnitude, hn::Set(d, 112u << 23)), hn::Add(last, hn::Set(d, 0x0FFFu)));
    const auto normal = hn::ShiftRight<13>(rounded);
    // Subnormal results: adding 1/2, whose last bit is worth 2^-24 like theirs, lets the addition round.
    const auto half = hn::Set(d, 126u << 23);
    const auto subnormal = hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, half))), half);
    // What is too large for the format, infinity, and NaN. Compared as signed, which magnitudes are small enough for.
    const auto compared = hn::BitCast(di, magnitude);
    const auto limit = [&](std::int32_t at_least) {
      return hn::MaskFromVec(hn::BitCast(d, hn::VecFromMask(di, hn::Gt(compared, hn::Set(di, at_least - 1)))));
    };
    auto result = hn::IfThenElse(limit(113 << 23), normal, subnormal);
    result = hn::IfThenElse(limit(143 << 23), hn::Set(d, 0x7C00u), result);
    result = hn::IfThenElse(limit(0x7F800001), hn::Set(d, 0x7E00u), result);
    return hn::Or(sign, result);
  }
};

// An operator of float on lanes of 16 bits: the even lanes, then the odd ones, each in the lower half of a 32-bit lane.
template <class Format, class Operator>
struct InFloat {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    const auto compute = [](auto d32, auto x, auto y) HWY_ATTR {
      const hn::RebindToFloat<decltype(d32)> df;
      return Format::narrow(d32, Operator()(df, Format::widen(d32, x), Format::widen(d32, y)));
    };
    if constexpr (Format::kInstructions && hn::MaxLanes(D()) >= 8) {
      const hn::Rebind<hwy::float16_t, D> d16;
      const hn::Half<D> half;
      const hn::Half<decltype(d16)> half16;
      const hn::Rebind<float, decltype(half)> df;
      const auto x = hn::BitCast(d16, a), y = hn::BitCast(d16, b);
      const auto low =
          Operator()(df, hn::PromoteTo(df, hn::LowerHalf(half16, x)), hn::PromoteTo(df, hn::LowerHalf(half16, y)));
      const auto high =
          Operator()(df, hn::PromoteTo(df, hn::UpperHalf(half16, x)), hn::PromoteTo(df, hn::UpperHalf(half16, y)));
      return hn::Combine(d, hn::BitCast(half, hn::DemoteTo(half16, high)),
                         hn::BitCast(half, hn::DemoteTo(half16, low)));
    } else if constexpr (hn::MaxLanes(D()) == 1) {
      const hn::Rebind<std::uint32_t, D> d32;
      const auto result = compute(d32, hn::PromoteTo(d32, a), hn::PromoteTo(d32, b));
      return hn::Set(d, static_cast<std::uint16_t>(hn::GetLane(result)));
    } else {
      const hn::Repartition<std::uint32_t, D> d32;
      const auto x = hn::BitCast(d32, a), y = hn::BitCast(d32, b), low = hn::Set(d32, 0xFFFFu);
      const auto even = compute(d32, hn::And(x, low), hn::And(y, low));
      const auto odd = compute(d32, hn::ShiftRight<16>(x), hn::ShiftRight<16>(y));
      return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<16>(odd)));
    }
  }
};

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

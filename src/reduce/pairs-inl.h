// SPDX-License-Identifier: BSD-3-Clause
//
// minloc and maxloc on (value, index) pairs with the layouts of C structs. Pairs become integers whose order is the
// order of the rule (value, then the lower index), so that finding the better pair is one comparison. What C leaves
// unused in a struct is zero in a result, or ranks could end with different bits.
#if defined(TUTTI_REDUCE_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_PAIRS_INL_H
#undef TUTTI_REDUCE_PAIRS_INL_H
#else
#define TUTTI_REDUCE_PAIRS_INL_H
#endif

#include <bit>

#include "reduce/operators-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

static_assert(std::endian::native == std::endian::little, "pairs are taken apart as little-endian integers");

enum class Extreme { min, max };

// Bits of a float or double as a signed integer of the same order: a negative number's magnitude is turned around. Its
// own inverse. -0 stands below +0. `high` has bits set where the value is, but for the sign.
template <class V>
HWY_INLINE V turn_negative(V bits, V high) {
  return hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), high));
}

// NaN wins either way: it must be the least for minloc, the greatest for maxloc. With the sign set or clear it is,
// since its bits are beyond those of infinity. `infinity` and `nan` have the bits of those at the place of the value,
// `sign` and `magnitude` masks likewise; whatever stands below the value is kept.
template <Extreme kExtreme, class D, class V>
HWY_INLINE V to_order(D, V bits, V sign, V magnitude, V infinity, V nan, V above) {
  const auto is_nan = hn::Gt(hn::And(bits, magnitude), infinity);
  const V winner = kExtreme == Extreme::min ? hn::Or(nan, sign) : nan;
  const V canonical_bits = hn::IfThenElse(is_nan, hn::Or(winner, hn::AndNot(above, bits)), bits);
  return turn_negative(canonical_bits, hn::And(magnitude, above));
}
template <class D, class V>
HWY_INLINE V from_order(D, V key, V sign, V magnitude, V infinity, V above) {
  const V bits = turn_negative(key, hn::And(magnitude, above));
  const auto is_nan = hn::Gt(hn::And(bits, magnitude), infinity);
  return hn::IfThenElse(is_nan, hn::AndNot(sign, bits), bits);
}

// Where value and index of an 8-byte pair stand. Each brings the value to the upper half of a 64-bit lane and the index
// to the lower, and back.
struct FloatInt {
  static constexpr bool kFloating = true;
  template <class D, class V>
  static HWY_INLINE V apart(D, V v) {
    return hn::Or(hn::ShiftLeft<32>(v), hn::ShiftRight<32>(v));
  }
  template <class D, class V>
  static HWY_INLINE V together(D d, V v) {
    return apart(d, v);
  }
};
struct IntInt : FloatInt {
  static constexpr bool kFloating = false;
};
struct ShortInt {
  static constexpr bool kFloating = false;
  template <class D, class V>
  static HWY_INLINE V apart(D, V v) {
    return hn::Or(hn::ShiftLeft<48>(v), hn::ShiftRight<32>(v));
  }
  template <class D, class V>
  static HWY_INLINE V together(D, V v) {
    return hn::Or(hn::ShiftRight<48>(v), hn::ShiftLeft<32>(v));
  }
};

// 8-byte pairs, one to a lane of uint64.
template <class Layout, Extreme kExtreme>
struct Loc8 {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    const hn::RebindToSigned<D> di;
    const auto x = key(d, a), y = key(d, b);
    return pair(d, kExtreme == Extreme::min ? hn::Min(x, y) : hn::Max(x, y), di);
  }

 private:
  // Makes the index, compared as unsigned, ascend for minloc and descend for maxloc: the lower one wins either way.
  static constexpr std::uint64_t kIndexTurn = kExtreme == Extreme::min ? 0x80000000u : 0x7FFFFFFFu;
  static constexpr std::int64_t kSign = INT64_MIN, kMagnitude = INT64_MAX, kInfinity = 0x7F800000'FFFFFFFF,
                                kNan = 0x7FC00000'00000000, kAbove = static_cast<std::int64_t>(0xFFFFFFFF'00000000u);

  template <class D, class V>
  static HWY_INLINE auto key(D d, V v) {
    const hn::RebindToSigned<D> di;
    auto bits = hn::BitCast(di, hn::Xor(Layout::apart(d, v), hn::Set(d, kIndexTurn)));
    if constexpr (Layout::kFloating)
      bits = to_order<kExtreme>(di, bits, hn::Set(di, kSign), hn::Set(di, kMagnitude), hn::Set(di, kInfinity),
                                hn::Set(di, kNan), hn::Set(di, kAbove));
    return bits;
  }
  template <class D, class K, class DI>
  static HWY_INLINE hn::Vec<D> pair(D d, K chosen, DI di) {
    if constexpr (Layout::kFloating)
      chosen = from_order(di, chosen, hn::Set(di, kSign), hn::Set(di, kMagnitude), hn::Set(di, kInfinity),
                          hn::Set(di, kAbove));
    return Layout::together(d, hn::Xor(hn::BitCast(d, chosen), hn::Set(d, kIndexTurn)));
  }
};

// 16-byte pairs, one to two lanes of int64: the value, and the index with padding above it.
template <bool kFloating, Extreme kExtreme>
struct Loc16 {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    if constexpr (hn::MaxLanes(D()) == 1) {
      return a;  // half a pair: instantiated, never run
    } else {
      const V x = key(d, a), y = key(d, b);
      const V less = hn::VecFromMask(d, hn::Lt(y, x)), equal = hn::VecFromMask(d, hn::Eq(x, y));
      const V better = kExtreme == Extreme::min ? less : hn::VecFromMask(d, hn::Lt(x, y));
      const V second = hn::Or(hn::DupEven(better), hn::And(hn::DupEven(equal), hn::DupOdd(less)));
      return pair(d, hn::IfThenElse(hn::MaskFromVec(second), y, x));
    }
  }

 private:
  static constexpr std::int64_t kSign = INT64_MIN, kMagnitude = INT64_MAX, kInfinity = 0x7FF0000000000000,
                                kNan = 0x7FF8000000000000, kAbove = -1;
  // The index, moved up, is compared as what it is; its padding is gone.
  template <class D, class V>
  static HWY_INLINE V key(D d, V v) {
    V value = v;
    if constexpr (kFloating)
      value = to_order<kExtreme>(d, v, hn::Set(d, kSign), hn::Set(d, kMagnitude), hn::Set(d, kInfinity),
                                 hn::Set(d, kNan), hn::Set(d, kAbove));
    return hn::OddEven(hn::ShiftLeft<32>(v), value);
  }
  template <class D, class V>
  static HWY_INLINE V pair(D d, V chosen) {
    const hn::RebindToUnsigned<D> bits;
    const V index = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(bits, chosen)));
    V value = chosen;
    if constexpr (kFloating)
      value =
          from_order(d, chosen, hn::Set(d, kSign), hn::Set(d, kMagnitude), hn::Set(d, kInfinity), hn::Set(d, kAbove));
    return hn::OddEven(index, value);
  }
};

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// SPDX-License-Identifier: BSD-3-Clause
//
// One loop for all kernels, compiled per operator, type and instruction set. There is no scalar tail: the last vector
// overlaps the one before, and what is shorter than a vector goes to vectors of half the size.
#include "reduce/kernels.h"

#include <cstring>

#include "base/check.h"
#include "reduce/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "reduce/operators-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

using Byte = std::uint8_t;

#if HWY_TARGET == HWY_SCALAR

template <class Operator, class T>
void run(void *out, const void *left, const void *right, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, static_cast<const Byte *>(left) + i * sizeof(T), sizeof(T));
    std::memcpy(&b, static_cast<const Byte *>(right) + i * sizeof(T), sizeof(T));
    const T result = Operator()(a, b);
    std::memcpy(static_cast<Byte *>(out) + i * sizeof(T), &result, sizeof(T));
  }
}

#else

// Vectors move as bytes, so that no pointer is ever less aligned than its type says.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const Byte *from) {
  return hn::BitCast(d, hn::LoadU(hn::Repartition<Byte, D>(), from));
}
template <class D>
HWY_INLINE void store(D, hn::Vec<D> value, Byte *to) {
  const hn::Repartition<Byte, D> bytes;
  hn::StoreU(hn::BitCast(bytes, value), bytes, to);
}

// Fewer elements than two vectors of D hold: the first and the last vector, or, if there is not even one, half as wide
// ones. Everything is loaded before anything is stored, since out may be an operand.
template <class Operator, class D>
HWY_INLINE void run_short(D d, Byte *out, const Byte *left, const Byte *right, std::size_t count) {
  constexpr std::size_t lanes = hn::MaxLanes(D()), lane_bytes = sizeof(hn::TFromD<D>);
  if (count >= lanes) {
    const std::size_t last = (count - lanes) * lane_bytes;
    const auto first_result = Operator()(d, load(d, left), load(d, right));
    const auto last_result = Operator()(d, load(d, left + last), load(d, right + last));
    store(d, first_result, out);
    store(d, last_result, out + last);
  } else if constexpr (lanes > 1) {
    run_short<Operator>(hn::Half<D>(), out, left, right, count);
  }
}

template <class Operator, class T>
void run(void *out_, const void *left_, const void *right_, std::size_t count) {
  const hn::ScalableTag<T> d;
  constexpr std::size_t step = hn::MaxLanes(d) * sizeof(T);
  Byte *out = static_cast<Byte *>(out_);
  const Byte *left = static_cast<const Byte *>(left_), *right = static_cast<const Byte *>(right_);
  if (count < 2 * hn::MaxLanes(d)) return run_short<Operator>(d, out, left, right, count);

  const std::size_t bytes = count * sizeof(T), last = bytes - step;
  // The last vector overlaps results that the loop may already have stored over its operands: load it first.
  const auto last_result = Operator()(d, load(d, left + last), load(d, right + last));
  std::size_t at = 0;
  // Four independent vectors hide the latency of the loads and of the arithmetic.
  for (; at + 4 * step <= bytes; at += 4 * step) {
    const auto a = Operator()(d, load(d, left + at), load(d, right + at));
    const auto b = Operator()(d, load(d, left + at + step), load(d, right + at + step));
    const auto e = Operator()(d, load(d, left + at + 2 * step), load(d, right + at + 2 * step));
    const auto f = Operator()(d, load(d, left + at + 3 * step), load(d, right + at + 3 * step));
    store(d, a, out + at);
    store(d, b, out + at + step);
    store(d, e, out + at + 2 * step);
    store(d, f, out + at + 3 * step);
  }
  for (; at < last; at += step) store(d, Operator()(d, load(d, left + at), load(d, right + at)), out + at);
  store(d, last_result, out + last);
}

#endif

template <class T>
constexpr Kernel kRow[kOps] = {run<Sum, T>, run<Prod, T>, run<Min, T>, run<Max, T>};

// By type, in the order of the public constants.
const Kernel *const *table() {
  static constexpr const Kernel *rows[kTypes] = {
      kRow<std::int8_t>,   kRow<std::uint8_t>, kRow<std::int16_t>,  kRow<std::uint16_t>, kRow<std::int32_t>,
      kRow<std::uint32_t>, kRow<std::int64_t>, kRow<std::uint64_t>, kRow<float>,         kRow<double>};
  return rows;
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::reduce {

HWY_EXPORT(table);

namespace {

Kernel pick(const Kernel *const *rows, Type type, Op op) {
  const auto row = static_cast<std::int32_t>(type), column = static_cast<std::int32_t>(op);
  TUTTI_CHECK(row >= 0 && row < kTypes && column >= 0 && column < kOps, "no kernel for type {} and operator {}", row,
              column);
  return rows[row][column];
}

}  // namespace

Kernel kernel(Type type, Op op) { return pick(HWY_DYNAMIC_DISPATCH(table)(), type, op); }

std::vector<std::int64_t> runnable_targets() { return hwy::SupportedAndGeneratedTargets(); }

const char *target_name(std::int64_t target) { return hwy::TargetName(target); }

Kernel kernel_on(std::int64_t target, Type type, Op op) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  const Kernel chosen = pick(HWY_DYNAMIC_DISPATCH(table)(), type, op);
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return chosen;
}

}  // namespace tutti::reduce
#endif

// SPDX-License-Identifier: BSD-3-Clause
//
// One loop for all kernels, compiled per operator, type and instruction set. There is no scalar tail: the last vector
// overlaps the one before, and what is shorter than a vector goes to vectors of half the size.
#include "reduce/kernels.h"

#include <atomic>
#include <utility>

#include "base/check.h"
#include "reduce/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "reduce/float16-inl.h"
#include "reduce/operators-inl.h"
#include "reduce/pairs-inl.h"

#ifndef TUTTI_REDUCE_TABLE
#define TUTTI_REDUCE_TABLE
namespace tutti::reduce {

// What one instruction set offers. Columns are the built-in operators; avg stays null, being a sum.
struct Table {
  std::int64_t target;
  Function combine[kSizedTypes][kBuiltinOps];
  Function mean[kSizedTypes];
  Conversion widen[2], narrow[2];  // float16, bfloat16
};

}  // namespace tutti::reduce
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

using Byte = std::uint8_t;

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

// Fewer lanes than two vectors of D hold: the first and the last vector, or, if there is not even one, half as wide
// ones. Everything is loaded before anything is stored, since out may be an operand.
template <class Operator, int kLanes, class D>
HWY_INLINE void run_short(D d, Byte *out, const Byte *left, const Byte *right, std::size_t count) {
  constexpr std::size_t lanes = hn::MaxLanes(D()), lane_bytes = sizeof(hn::TFromD<D>);
  if (count >= lanes) {
    const std::size_t last = (count - lanes) * lane_bytes;
    const auto first_result = Operator()(d, load(d, left), load(d, right));
    const auto last_result = Operator()(d, load(d, left + last), load(d, right + last));
    store(d, first_result, out);
    store(d, last_result, out + last);
  } else if constexpr (lanes > kLanes) {
    run_short<Operator, kLanes>(hn::Half<D>(), out, left, right, count);
  }
}

// Elements of kLanes lanes of T each.
template <class Operator, class T, int kLanes = 1>
void run(void *out_, const void *left_, const void *right_, std::size_t elements, const void *) {
  const hn::ScalableTag<T> d;
  constexpr std::size_t step = hn::MaxLanes(d) * sizeof(T);
  const std::size_t count = elements * kLanes;
  Byte *out = static_cast<Byte *>(out_);
  const Byte *left = static_cast<const Byte *>(left_), *right = static_cast<const Byte *>(right_);
  if (count < 2 * hn::MaxLanes(d)) return run_short<Operator, kLanes>(d, out, left, right, count);

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

// Elements of two parts that know nothing of each other.
template <class Operator, class T>
void run_parts(void *out, const void *left, const void *right, std::size_t count, const void *context) {
  run<Operator, T>(out, left, right, 2 * count, context);
}

// As many floats as D has from or to numbers of 16 bits.
template <class Format, class D>
HWY_INLINE void widen_vector(D df, Byte *out, const Byte *in) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<std::uint16_t, D> d16;
  if constexpr (Format::kInstructions && hn::MaxLanes(D()) >= 4) {
    const hn::Rebind<hwy::float16_t, D> half;
    store(df, hn::PromoteTo(df, hn::BitCast(half, load(d16, in))), out);
  } else {
    store(df, Format::widen(d32, hn::PromoteTo(d32, load(d16, in))), out);
  }
}
template <class Format, class D>
HWY_INLINE void narrow_vector(D df, Byte *out, const Byte *in) {
  const hn::RebindToSigned<D> d32;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto value = canonical(df, load(df, in));
  if constexpr (Format::kInstructions && hn::MaxLanes(D()) >= 4) {
    const hn::Rebind<hwy::float16_t, D> half;
    store(d16, hn::BitCast(d16, hn::DemoteTo(half, value)), out);
  } else {
    const auto low = Format::narrow(hn::RebindToUnsigned<D>(), value);
    store(d16, hn::DemoteTo(d16, hn::BitCast(d32, low)), out);
  }
}

template <class Format>
void widen(void *out, const void *in, std::size_t count) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  constexpr std::size_t lanes = hn::MaxLanes(d);
  auto *to = static_cast<Byte *>(out);
  const auto *from = static_cast<const Byte *>(in);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) widen_vector<Format>(d, to + 4 * i, from + 2 * i);
  for (; i < count; ++i) widen_vector<Format>(one, to + 4 * i, from + 2 * i);
}
template <class Format>
void narrow(void *out, const void *in, std::size_t count) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  constexpr std::size_t lanes = hn::MaxLanes(d);
  auto *to = static_cast<Byte *>(out);
  const auto *from = static_cast<const Byte *>(in);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) narrow_vector<Format>(d, to + 2 * i, from + 4 * i);
  for (; i < count; ++i) narrow_vector<Format>(one, to + 2 * i, from + 4 * i);
}

template <class T>
constexpr std::uint64_t kLargest = kInfinity<T> - 1;

class TableMaker {
 public:
  constexpr TableMaker() {
    table_.target = HWY_TARGET;
    integer<std::int8_t>(Type::int8);
    integer<std::uint8_t>(Type::uint8);
    integer<std::int16_t>(Type::int16);
    integer<std::uint16_t>(Type::uint16);
    integer<std::int32_t>(Type::int32);
    integer<std::uint32_t>(Type::uint32);
    integer<std::int64_t>(Type::int64);
    integer<std::uint64_t>(Type::uint64);
    floating<float>(Type::float32);
    floating<double>(Type::float64);
    in_float<Float16>(Type::float16, 0);
    in_float<Bfloat16>(Type::bfloat16, 1);
    complex<float>(Type::complex_float);
    complex<double>(Type::complex_double);
    logical<std::uint8_t>(Type::boolean);
    bitwise<std::uint8_t>(Type::byte);
    put(Type::float_int, Op::minloc, run<Loc8<FloatInt, Extreme::min>, std::uint64_t>);
    put(Type::float_int, Op::maxloc, run<Loc8<FloatInt, Extreme::max>, std::uint64_t>);
    put(Type::int_int, Op::minloc, run<Loc8<IntInt, Extreme::min>, std::uint64_t>);
    put(Type::int_int, Op::maxloc, run<Loc8<IntInt, Extreme::max>, std::uint64_t>);
    put(Type::short_int, Op::minloc, run<Loc8<ShortInt, Extreme::min>, std::uint64_t>);
    put(Type::short_int, Op::maxloc, run<Loc8<ShortInt, Extreme::max>, std::uint64_t>);
    put(Type::double_int, Op::minloc, run<Loc16<true, Extreme::min>, std::int64_t, 2>);
    put(Type::double_int, Op::maxloc, run<Loc16<true, Extreme::max>, std::int64_t, 2>);
    put(Type::long_int, Op::minloc, run<Loc16<false, Extreme::min>, std::int64_t, 2>);
    put(Type::long_int, Op::maxloc, run<Loc16<false, Extreme::max>, std::int64_t, 2>);
  }
  constexpr const Table &table() const { return table_; }

 private:
  constexpr void put(Type type, Op op, Function function) {
    table_.combine[static_cast<int>(type)][static_cast<int>(op)] = function;
  }
  template <class T>
  constexpr void logical(Type type) {
    put(type, Op::land, run<LogicalAnd, T>);
    put(type, Op::lor, run<LogicalOr, T>);
    put(type, Op::lxor, run<LogicalXor, T>);
  }
  template <class T>
  constexpr void bitwise(Type type) {
    put(type, Op::band, run<BitAnd, T>);
    put(type, Op::bor, run<BitOr, T>);
    put(type, Op::bxor, run<BitXor, T>);
  }
  template <class T>
  constexpr void ordered(Type type) {
    put(type, Op::min, run<Min, T>);
    put(type, Op::max, run<Max, T>);
  }
  template <class T>
  constexpr void arithmetic(Type type) {
    put(type, Op::sum, run<Sum, T>);
    put(type, Op::prod, run<Prod, T>);
  }
  template <class T>
  constexpr void integer(Type type) {
    ordered<T>(type);
    // Only order knows of signs: the rest is one kernel for both.
    arithmetic<hwy::MakeUnsigned<T> >(type);
    logical<hwy::MakeUnsigned<T> >(type);
    bitwise<hwy::MakeUnsigned<T> >(type);
  }
  template <class T>
  constexpr void floating(Type type) {
    ordered<T>(type);
    arithmetic<T>(type);
    table_.mean[static_cast<int>(type)] = run<Mean<kLargest<T> >, T>;
  }
  template <class Format>
  constexpr void in_float(Type type, int which) {
    put(type, Op::sum, run<InFloat<Format, Sum>, std::uint16_t>);
    put(type, Op::prod, run<InFloat<Format, Prod>, std::uint16_t>);
    put(type, Op::min, run<InFloat<Format, Min>, std::uint16_t>);
    put(type, Op::max, run<InFloat<Format, Max>, std::uint16_t>);
    table_.mean[static_cast<int>(type)] = run<Mean<Format::kLargest>, float>;
    table_.widen[which] = widen<Format>;
    table_.narrow[which] = narrow<Format>;
  }
  template <class T>
  constexpr void complex(Type type) {
    put(type, Op::sum, run_parts<Sum, T>);
    put(type, Op::prod, run<ComplexProd, T, 2>);
    table_.mean[static_cast<int>(type)] = run_parts<Mean<kLargest<T> >, T>;
  }
  Table table_ = {};
};

const Table *table() {
  static constexpr TableMaker maker;
  return &maker.table();
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::reduce {

HWY_EXPORT(table);

namespace {

// The table of the best instruction set among `targets`. Not Highway's own dispatch, whose choice is hidden and belongs
// to the whole process.
const Table *table_for(std::int64_t targets) {
  hwy::ChosenTarget chosen;
  chosen.Update(targets);
  const std::size_t index = std::size(HWY_DISPATCH_TABLE(table)) == 1 ? 0 : chosen.GetIndex();
  return HWY_DISPATCH_TABLE(table)[index]();
}

// Tables are constants: whoever sees the pointer sees the table.
std::atomic<const Table *> in_use = nullptr;

const Table &best() {
  const Table *found = in_use.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = table_for(hwy::SupportedTargets());
    in_use.store(found, std::memory_order_relaxed);
  }
  return *found;
}

int float16_index(Type type) {
  TUTTI_CHECK(type == Type::float16 || type == Type::bfloat16, "{} has 16 bits", type_name(static_cast<int>(type)));
  return type == Type::float16 ? 0 : 1;
}

}  // namespace

Kernel kernel(Type type, Op op) {
  const Op combining = op == Op::avg || op == Op::premul_sum ? Op::sum : op;
  TUTTI_CHECK(type != Type::op_element && takes(type, op) && op != Op::user, "no kernel for type {} and operator {}",
              static_cast<int>(type), static_cast<int>(op));
  return best().combine[static_cast<int>(type)][static_cast<int>(combining)];
}

Kernel mean_kernel(Type type) {
  const Function function = type == Type::op_element ? nullptr : best().mean[static_cast<int>(type)];
  TUTTI_CHECK(function, "no mean of type {}", static_cast<int>(type));
  return function;
}

Conversion widening(Type type) { return best().widen[float16_index(type)]; }
Conversion narrowing(Type type) { return best().narrow[float16_index(type)]; }

std::vector<std::int64_t> runnable_targets() { return hwy::SupportedAndGeneratedTargets(); }

const char *target_name(std::int64_t target) { return hwy::TargetName(target); }

OnTarget::OnTarget(std::int64_t target) { in_use.store(table_for(target), std::memory_order_relaxed); }
OnTarget::~OnTarget() { in_use.store(nullptr, std::memory_order_relaxed); }

void use_at_most(std::string_view instruction_set) {
  constexpr std::pair<std::string_view, std::int64_t> kNames[] = {
      {"avx512", HWY_AVX3}, {"avx2", HWY_AVX2}, {"sse4", HWY_SSE4}, {"ssse3", HWY_SSSE3}, {"none", HWY_EMU128}};
  std::int64_t targets = hwy::SupportedTargets();
  // Highway numbers better instruction sets lower.
  for (const auto &[name, target] : kNames)
    if (name == instruction_set) targets &= ~(target - 1);
  in_use.store(table_for(targets), std::memory_order_relaxed);
}

const char *instruction_set_in_use() { return hwy::TargetName(best().target); }

}  // namespace tutti::reduce
#endif

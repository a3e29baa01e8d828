// SPDX-License-Identifier: BSD-3-Clause
#include "reduce/reduction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "reduce/integer_mean.h"
#include "reduce/user.h"

namespace tutti::reduce {
namespace {

bool has_16_bits(Type type) { return type == Type::float16 || type == Type::bfloat16; }
bool is_integer(Type type) { return type <= Type::uint64; }

// Whether sums and products of a 16-bit type should travel as float.
bool widens(const Reduction::What &what) {
  if (!has_16_bits(what.type) || what.ranks == 1) return false;
  const std::size_t bytes = what.count * type_bytes(static_cast<std::int32_t>(what.type));
  switch (what.op) {
    case Op::avg:
      // Scaled down, many a float16 would lose bits or vanish: its least normal number is 2^-14.
      return what.type == Type::float16 || bytes <= what.widen_bytes;
    case Op::premul_sum: return bytes <= what.widen_bytes;
    case Op::sum:
    case Op::prod: return what.ranks > 2 && bytes <= what.widen_bytes;  // two operands are rounded once as they are
    default: return false;
  }
}

// A sum of elements divided by 2^bits cannot overflow, however partial sums are rounded: one bit more than the number
// of ranks has, since rounding a sum to nearest adds to it no more than the smaller operand.
int headroom_bits(std::int32_t ranks) { return std::bit_width(static_cast<std::uint32_t>(ranks - 1)) + 1; }

}  // namespace

void Reduction::fill(Block &block, const void *element, std::size_t bytes) {
  for (std::size_t at = 0; at < kBlockBytes; at += bytes) std::memcpy(&block[at], element, bytes);
}

// A real number as elements of a type that travels.
void Reduction::fill(Block &block, Type type, double value) {
  const float narrow[2] = {static_cast<float>(value), 0};
  const double wide[2] = {value, 0};
  switch (type) {
    case Type::float32: return fill(block, narrow, sizeof(float));
    case Type::float64: return fill(block, wide, sizeof(double));
    case Type::complex_float: return fill(block, narrow, sizeof(narrow));
    case Type::complex_double: return fill(block, wide, sizeof(wide));
    case Type::bfloat16: {
      std::uint16_t bits = 0;
      narrowing(type)(&bits, narrow, 1);
      return fill(block, &bits, sizeof(bits));
    }
    default: TUTTI_CHECK(false, "no block of type {}", static_cast<int>(type));
  }
}

void Reduction::choose_mean(std::int32_t ranks) {
  if (ranks == 1) return;  // its own mean
  if (is_integer(type_)) {
    way_ = Way::integer_mean;
    travelling_bytes_ = integer_mean::travelling_bytes(type_);
    function_ = integer_mean::combine(type_);
    return;
  }
  if (way_ == Way::plain) way_ = Way::scaled;
  divides_ = true;
  // float16 travels as float, which has room for the sum of as many as there can be ranks.
  scales_ = type_ != Type::float16;
  const int bits = scales_ ? headroom_bits(ranks) : 0;
  if (scales_) fill(factors_, travelling_type(), std::ldexp(1.0, -bits));
  const double divisor = std::ldexp(static_cast<double>(ranks), -bits);  // exact, also as a float
  switch (type_) {
    // Parts are divided each by its own, so a complex divisor has the same number twice.
    case Type::float64:
    case Type::complex_double: return fill(divisors_, Type::float64, divisor);
    default: return fill(divisors_, Type::float32, divisor);
  }
}

void Reduction::choose(const What &what) {
  TUTTI_CHECK(takes(what.type, what.op), "{} does not take {}", static_cast<int>(what.type), static_cast<int>(what.op));
  type_ = what.type;
  ranks_ = what.ranks;
  scales_ = divides_ = false;
  created_ = what.created != nullptr ? *what.created : Created();
  way_ = widens(what) ? Way::widened : Way::plain;
  if (what.op == Op::user) {
    own_bytes_ = travelling_bytes_ = created_.element_bytes;
    function_ = run_user;
    return;
  }
  own_bytes_ = travelling_bytes_ = type_bytes(static_cast<std::int32_t>(type_));
  if (way_ == Way::widened) travelling_bytes_ = sizeof(float);
  function_ = reduce::kernel(travelling_type(), what.op).function();
  if (what.op == Op::avg) choose_mean(what.ranks);
  if (what.op == Op::premul_sum) {
    scales_ = true;
    if (way_ == Way::widened) {
      float factor = 0;
      widening(type_)(&factor, created_.factor.data(), 1);
      fill(factors_, &factor, sizeof(factor));
    } else {
      way_ = Way::scaled;
      fill(factors_, created_.factor.data(), own_bytes_);
    }
  }
}

void Reduction::enter(void *travelling, const void *own, std::size_t count) const {
  if (count == 0) return;  // buffers may be null
  if (way_ == Way::integer_mean) return integer_mean::enter(type_, travelling, own, count, ranks_);
  auto *to = static_cast<std::byte *>(travelling);
  const auto *from = static_cast<const std::byte *>(own);
  const Kernel multiply = reduce::kernel(travelling_type(), Op::prod);
  for (std::size_t done = 0; done < count;) {
    const std::size_t some = std::min(count - done, kBlockBytes / travelling_bytes_);
    const std::byte *operands = from;
    if (way_ == Way::widened) {
      widening(type_)(to, from, some);
      operands = to;
    }
    if (scales_) multiply(to, operands, factors_.data(), some);
    done += some;
    to += some * travelling_bytes_;
    from += some * own_bytes_;
  }
}

void Reduction::leave(void *own, void *travelling, std::size_t count) const {
  if (count == 0) return;
  if (way_ == Way::integer_mean) return integer_mean::leave(type_, own, travelling, count, ranks_);
  if (way_ == Way::scaled && !divides_) {
    if (own != travelling) std::memcpy(own, travelling, count * own_bytes_);
    return;
  }
  auto *to = static_cast<std::byte *>(own);
  auto *from = static_cast<std::byte *>(travelling);
  const bool has_16 = has_16_bits(type_);
  alignas(64) Block floats;  // of a 16-bit type that travelled as itself
  for (std::size_t done = 0; done < count;) {
    const std::size_t some = std::min(count - done, kBlockBytes / (has_16 ? sizeof(float) : own_bytes_));
    std::byte *sums = from;
    if (has_16 && way_ == Way::scaled) {
      widening(type_)(floats.data(), from, some);
      sums = floats.data();
    }
    if (divides_) mean_kernel(type_)(has_16 ? sums : to, sums, divisors_.data(), some);
    if (has_16) narrowing(type_)(to, sums, some);
    done += some;
    to += some * own_bytes_;
    from += some * travelling_bytes_;
  }
}

}  // namespace tutti::reduce

// SPDX-License-Identifier: BSD-3-Clause
//
// How one call reduces: which elements travel, how two partial results are combined, and what is done to elements
// before (enter) and to results after (leave). Most operators only combine; the others are here, so that nothing below
// knows of them:
//   avg          floating: scaled by a power of two so that no sum overflows, summed, divided. Integers: summed in
//                64 bits (or, of 64 bits, as quotients and remainders by the number of ranks), divided towards zero.
//   premul_sum   multiplied by this rank's factor, summed.
//   16-bit       sums and products travel as float up to a size (float16's avg at every size): rounded once, at the
//                end.
//
// Invariant: enter() is this rank's own affair; leave() is a function of the combined elements alone, which have equal
// bits on all ranks, so the results have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "reduce/created.h"
#include "reduce/kernels.h"

namespace tutti::reduce {

class Reduction {
 public:
  struct What {
    Type type = Type::uint8;
    Op op = Op::sum;
    const Created *created = nullptr;  // of premul_sum and user
    std::int32_t ranks = 1;
    std::size_t count = 0;
    std::size_t widen_bytes = 0;  // the largest vector of 16-bit floats that travels as float
  };

  Reduction() = default;
  Reduction(const Reduction &) = delete;  // kernels point into it
  Reduction &operator=(const Reduction &) = delete;

  // `what` is something that takes() allows. Allocates nothing.
  void choose(const What &what);

  // Of an operator of the program's own it points into this object.
  Kernel kernel() const { return {function_, created_.function != nullptr ? &created_ : nullptr}; }
  std::size_t element_bytes() const { return travelling_bytes_; }  // of what travels
  bool commutative() const { return created_.commutative; }
  // Whether enter() and leave() have to be called; otherwise what travels is what the caller has.
  bool converts() const { return way_ != Way::plain; }
  // Whether what travels has another size than the caller's elements, and so needs memory of its own.
  bool resizes() const { return travelling_bytes_ != own_bytes_; }

  // From the caller's elements to what travels. Where nothing is resized, `travelling` may be `own`.
  void enter(void *travelling, const void *own, std::size_t count) const;
  // From combined elements, which are used up, to results. Likewise.
  void leave(void *own, void *travelling, std::size_t count) const;

 private:
  enum class Way : std::uint8_t { plain, scaled, widened, integer_mean };
  // Operands of element-wise kernels that are the same for all elements: so many bytes of them, a fraction of the
  // first-level cache and a multiple of every type's size.
  static constexpr std::size_t kBlockBytes = 1024;
  using Block = std::array<std::byte, kBlockBytes>;

  void choose_mean(std::int32_t ranks);
  void fill(Block &block, Type type, double value);
  void fill(Block &block, const void *element, std::size_t bytes);
  Type travelling_type() const { return way_ == Way::widened ? Type::float32 : type_; }

  Type type_ = Type::uint8;
  Way way_ = Way::plain;
  bool scales_ = false, divides_ = false;
  std::int32_t ranks_ = 1;
  Function function_ = nullptr;
  std::size_t own_bytes_ = 1, travelling_bytes_ = 1;
  Created created_;
  alignas(64) Block factors_ = {}, divisors_ = {};
};

}  // namespace tutti::reduce

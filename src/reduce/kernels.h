// SPDX-License-Identifier: BSD-3-Clause
//
// Reduction kernels: out[i] = left[i] op right[i], for every type and every operator that it takes, vectorised with
// run-time dispatch. The result has the same bits whatever the CPU, the alignment and the length: one documented rule
// (docs/OPERATORS.md) in vector and tail code, and there is no other code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "reduce/types.h"

namespace tutti::reduce {

// out may equal left or right (or both), but not overlap them otherwise. No pointer needs more alignment than its bytes
// (any address is fine). count 0 touches nothing.
using Function = void (*)(void *out, const void *left, const void *right, std::size_t count, const void *context);

// A function with what it works by: null for built-in operators.
class Kernel {
 public:
  Kernel() = default;
  Kernel(Function run, const void *context = nullptr) : function_(run), context_(context) {}  // NOLINT

  void operator()(void *out, const void *left, const void *right, std::size_t count) const {
    function_(out, left, right, count, context_);
  }
  Function function() const { return function_; }
  const void *context() const { return context_; }
  explicit operator bool() const { return function_ != nullptr; }
  bool operator==(const Kernel &) const = default;

 private:
  Function function_ = nullptr;
  const void *context_ = nullptr;
};

// How two partial results are combined. avg and premul_sum are sums of elements that were scaled before (reduction.h).
// Aborts for what takes() refuses.
Kernel kernel(Type type, Op op);

// out[i] = left[i] / right[i] of floating types, at most the largest finite number where left[i] is finite: the mean of
// finite values is finite, whatever their sum was rounded to. Complex: real and imaginary parts each by their own.
// 16-bit types: operands and results are floats, the results small enough for the type.
Kernel mean_kernel(Type type);

// The instruction sets that kernels may use, in this process: "avx512", "avx2", "sse4", "ssse3", "none", or "auto" for
// all that the CPU has. What the CPU lacks is not used in any case; results are the same. Any thread; kernels that were
// given out stay what they are.
void use_at_most(std::string_view instruction_set);
const char *instruction_set_in_use();

// Between a 16-bit floating type and float, to nearest even. out and in do not overlap.
using Conversion = void (*)(void *out, const void *in, std::size_t count);
Conversion widening(Type type);
Conversion narrowing(Type type);

}  // namespace tutti::reduce

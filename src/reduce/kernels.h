// SPDX-License-Identifier: BSD-3-Clause
//
// Reduction kernels: out[i] = left[i] op right[i], for every type and operator, vectorised with run-time dispatch. The
// result has the same bits whatever the CPU, the alignment and the length: one documented rule in vector, tail and
// scalar code.
//   integers    overflow wraps (two's complement)
//   min, max    any NaN operand gives the canonical quiet NaN; -0 is less than +0
//   sum, prod   IEEE 754, one rounding per operation; a NaN result is the canonical quiet NaN (so that operand order
//   never shows)
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/tutti.h"

namespace tutti::reduce {

enum class Type : std::int32_t {
  int8 = TUTTI_INT8,
  uint8 = TUTTI_UINT8,
  int16 = TUTTI_INT16,
  uint16 = TUTTI_UINT16,
  int32 = TUTTI_INT32,
  uint32 = TUTTI_UINT32,
  int64 = TUTTI_INT64,
  uint64 = TUTTI_UINT64,
  float32 = TUTTI_FLOAT,
  float64 = TUTTI_DOUBLE,
};
enum class Op : std::int32_t { sum = TUTTI_SUM, prod = TUTTI_PROD, min = TUTTI_MIN, max = TUTTI_MAX };

inline constexpr int kTypes = 10;
inline constexpr int kOps = 4;

// out may equal left or right (or both), but not overlap them otherwise. No pointer needs more alignment than its bytes
// (any address is fine). count 0 touches nothing.
using Kernel = void (*)(void *out, const void *left, const void *right, std::size_t count);

// Never null for the types and operators above.
Kernel kernel(Type type, Op op);

// 0 for what is not a type.
inline std::size_t type_bytes(std::int32_t type) {
  constexpr std::uint8_t kBytes[kTypes] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return static_cast<std::uint32_t>(type) < kTypes ? kBytes[type] : 0;
}
const char *type_name(std::int32_t type);  // "int8", "float", ...; null for what is not a type
const char *op_name(std::int32_t op);      // "sum", ...; null for what is not an operator

}  // namespace tutti::reduce

// SPDX-License-Identifier: BSD-3-Clause
//
// The element types and operators as data: numbers, names, sizes, and which operator goes with which type. Invariant:
// the tables agree with the public constants, which are part of the ABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

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
  float16 = TUTTI_FLOAT16,
  bfloat16 = TUTTI_BFLOAT16,
  complex_float = TUTTI_COMPLEX_FLOAT,
  complex_double = TUTTI_COMPLEX_DOUBLE,
  boolean = TUTTI_BOOL,
  byte = TUTTI_BYTE,
  float_int = TUTTI_FLOAT_INT,
  double_int = TUTTI_DOUBLE_INT,
  long_int = TUTTI_LONG_INT,
  int_int = TUTTI_2INT,
  short_int = TUTTI_SHORT_INT,
  op_element = TUTTI_OP_ELEMENT,  // of the size that a created operator tells
};
inline constexpr int kTypes = TUTTI_OP_ELEMENT + 1;
inline constexpr int kSizedTypes = TUTTI_OP_ELEMENT;  // all but op_element, which is the last

enum class Op : std::int32_t {
  sum = TUTTI_SUM,
  prod = TUTTI_PROD,
  min = TUTTI_MIN,
  max = TUTTI_MAX,
  avg = TUTTI_AVG,
  land = TUTTI_LAND,
  lor = TUTTI_LOR,
  lxor = TUTTI_LXOR,
  band = TUTTI_BAND,
  bor = TUTTI_BOR,
  bxor = TUTTI_BXOR,
  minloc = TUTTI_MINLOC,
  maxloc = TUTTI_MAXLOC,
  // Made by tutti_op_create*: the public number is a handle (created.h).
  premul_sum,
  user,
};
inline constexpr int kBuiltinOps = TUTTI_MAXLOC + 1;
inline constexpr int kOps = kBuiltinOps + 2;

// By type: bit `op` is set where the operator is defined. user goes with every type of its size.
extern const std::uint16_t kOperatorsOf[kTypes];

inline bool takes(Type type, Op op) {
  return (kOperatorsOf[static_cast<std::size_t>(type)] >> static_cast<unsigned>(op) & 1u) != 0;
}
// The same of numbers that a caller gave; false for what is no type, no built-in operator.
inline bool takes_builtin(std::int32_t type, std::int32_t op) {
  return static_cast<std::uint32_t>(type) < kTypes && static_cast<std::uint32_t>(op) < kBuiltinOps &&
         takes(static_cast<Type>(type), static_cast<Op>(op));
}

// 0 for what is not a type, and for op_element.
inline std::size_t type_bytes(std::int32_t type) {
  constexpr std::uint8_t kBytes[kTypes] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 2, 2, 8, 16, 1, 1, 8, 16, 16, 8, 8, 0};
  return static_cast<std::uint32_t>(type) < kTypes ? kBytes[type] : 0;
}

const char *type_name(std::int32_t type);  // "int8", "float", ...; null for what is not a type
const char *op_name(std::int32_t op);      // "sum", ...; null for what is not an operator
// For messages: "sum, prod, min": the operators that a type takes, and the types that an operator goes with.
std::string operators_of(Type type);
std::string types_with(Op op);

}  // namespace tutti::reduce

// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/elements.h"

#include <vector>

namespace tutti::perf {

std::span<const ElementType> element_types() {
  static const std::vector<ElementType> rows = {
      {"int8", TUTTI_INT8, 1, Group::integer, MPI_INT8_T},
      {"uint8", TUTTI_UINT8, 1, Group::integer, MPI_UINT8_T},
      {"int16", TUTTI_INT16, 2, Group::integer, MPI_INT16_T},
      {"uint16", TUTTI_UINT16, 2, Group::integer, MPI_UINT16_T},
      {"int32", TUTTI_INT32, 4, Group::integer, MPI_INT32_T},
      {"uint32", TUTTI_UINT32, 4, Group::integer, MPI_UINT32_T},
      {"int64", TUTTI_INT64, 8, Group::integer, MPI_INT64_T},
      {"uint64", TUTTI_UINT64, 8, Group::integer, MPI_UINT64_T},
      {"float", TUTTI_FLOAT, 4, Group::floating, MPI_FLOAT},
      {"double", TUTTI_DOUBLE, 8, Group::floating, MPI_DOUBLE},
      {"float16", TUTTI_FLOAT16, 2, Group::floating, MPI_DATATYPE_NULL},
      {"bfloat16", TUTTI_BFLOAT16, 2, Group::floating, MPI_DATATYPE_NULL},
      {"complex_float", TUTTI_COMPLEX_FLOAT, 8, Group::complex, MPI_C_FLOAT_COMPLEX},
      {"complex_double", TUTTI_COMPLEX_DOUBLE, 16, Group::complex, MPI_C_DOUBLE_COMPLEX},
      {"bool", TUTTI_BOOL, 1, Group::boolean, MPI_C_BOOL},
      {"byte", TUTTI_BYTE, 1, Group::byte, MPI_BYTE},
      {"float_int", TUTTI_FLOAT_INT, 8, Group::pair, MPI_FLOAT_INT},
      {"double_int", TUTTI_DOUBLE_INT, 16, Group::pair, MPI_DOUBLE_INT},
      {"long_int", TUTTI_LONG_INT, 16, Group::pair, MPI_LONG_INT},
      {"2int", TUTTI_2INT, 8, Group::pair, MPI_2INT},
      {"short_int", TUTTI_SHORT_INT, 8, Group::pair, MPI_SHORT_INT},
  };
  return rows;
}

std::span<const Operator> operators() {
  static const std::vector<Operator> rows = {
      {"sum", TUTTI_SUM, MPI_SUM},
      {"prod", TUTTI_PROD, MPI_PROD},
      {"min", TUTTI_MIN, MPI_MIN},
      {"max", TUTTI_MAX, MPI_MAX},
      {"avg", TUTTI_AVG, MPI_OP_NULL},
      {"land", TUTTI_LAND, MPI_LAND},
      {"lor", TUTTI_LOR, MPI_LOR},
      {"lxor", TUTTI_LXOR, MPI_LXOR},
      {"band", TUTTI_BAND, MPI_BAND},
      {"bor", TUTTI_BOR, MPI_BOR},
      {"bxor", TUTTI_BXOR, MPI_BXOR},
      {"minloc", TUTTI_MINLOC, MPI_MINLOC},
      {"maxloc", TUTTI_MAXLOC, MPI_MAXLOC},
      {"premul_sum", TUTTI_OP_NULL, MPI_OP_NULL, Made::premul_sum},
      {"user", TUTTI_OP_NULL, MPI_OP_NULL, Made::user},
  };
  return rows;
}

bool takes(const ElementType &type, const Operator &op) {
  if (op.made == Made::user) return true;
  const bool arithmetic = type.group <= Group::complex;
  if (op.made == Made::premul_sum) return arithmetic;
  switch (op.id) {
    case TUTTI_SUM:
    case TUTTI_PROD:
    case TUTTI_AVG: return arithmetic;
    case TUTTI_MIN:
    case TUTTI_MAX: return type.group <= Group::floating;
    case TUTTI_LAND:
    case TUTTI_LOR:
    case TUTTI_LXOR: return type.group == Group::integer || type.group == Group::boolean;
    case TUTTI_BAND:
    case TUTTI_BOR:
    case TUTTI_BXOR: return type.group == Group::integer || type.group == Group::byte;
    default: return type.group == Group::pair;
  }
}

std::string operators_of(const ElementType &type) {
  std::string text;
  for (const Operator &op : operators())
    if (takes(type, op)) text += (text.empty() ? "" : ", ") + std::string(op.name);
  return text;
}

}  // namespace tutti::perf

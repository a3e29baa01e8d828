// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/elements.h"

#include <vector>

namespace tutti::perf {

std::span<const ElementType> element_types() {
  static const std::vector<ElementType> rows = {
      {"int8", TUTTI_INT8, 1, MPI_INT8_T},
      {"uint8", TUTTI_UINT8, 1, MPI_UINT8_T},
      {"int16", TUTTI_INT16, 2, MPI_INT16_T},
      {"uint16", TUTTI_UINT16, 2, MPI_UINT16_T},
      {"int32", TUTTI_INT32, 4, MPI_INT32_T},
      {"uint32", TUTTI_UINT32, 4, MPI_UINT32_T},
      {"int64", TUTTI_INT64, 8, MPI_INT64_T},
      {"uint64", TUTTI_UINT64, 8, MPI_UINT64_T},
      {"float", TUTTI_FLOAT, sizeof(float), MPI_FLOAT},
      {"double", TUTTI_DOUBLE, sizeof(double), MPI_DOUBLE},
  };
  return rows;
}

std::span<const Operator> operators() {
  static const std::vector<Operator> rows = {
      {"sum", TUTTI_SUM, MPI_SUM},
      {"prod", TUTTI_PROD, MPI_PROD},
      {"min", TUTTI_MIN, MPI_MIN},
      {"max", TUTTI_MAX, MPI_MAX},
  };
  return rows;
}

}  // namespace tutti::perf

// SPDX-License-Identifier: BSD-3-Clause
//
// The element types and operators that can be measured, as data: one row each. Names are those that people know from
// nccl-tests.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti::perf {

struct ElementType {
  const char *name;
  tutti_type id;
  std::size_t bytes;
  MPI_Datatype mpi;
};

struct Operator {
  const char *name;
  tutti_op id;
  MPI_Op mpi;
};

std::span<const ElementType> element_types();
std::span<const Operator> operators();

// The row of that name in a table, or null.
template <class Row>
const Row *find_row(std::span<const Row> rows, std::string_view name) {
  for (const Row &row : rows)
    if (name == row.name) return &row;
  return nullptr;
}

// "sum, prod, min, max": for messages about a name that does not exist.
template <class Row>
std::string names_of(std::span<const Row> rows) {
  std::string text;
  for (const Row &row : rows) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

}  // namespace tutti::perf

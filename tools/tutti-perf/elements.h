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

enum class Group { integer, floating, complex, boolean, byte, pair };

struct ElementType {
  const char *name;
  tutti_type id;
  std::size_t bytes;
  Group group;
  MPI_Datatype mpi;  // MPI_DATATYPE_NULL: MPI has none
};

// Operators that are no constants of the library: each rank makes its own (made_operator.h).
enum class Made { no, premul_sum, user };

struct Operator {
  const char *name;
  tutti_op id;  // what calls take; TUTTI_OP_NULL until it is made
  MPI_Op mpi;   // MPI_OP_NULL: MPI has none
  Made made = Made::no;
};

std::span<const ElementType> element_types();
std::span<const Operator> operators();
bool takes(const ElementType &type, const Operator &op);
// "land, lor, lxor": what a type takes, for messages.
std::string operators_of(const ElementType &type);

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

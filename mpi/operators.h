// SPDX-License-Identifier: BSD-3-Clause
//
// What Tutti reduces with for an MPI operator on an MPI type: its own kernels for what both know, and the MPI's own
// MPI_Reduce_local for everything else (operators of the program, long double, types with gaps).
#pragma once

#include <memory>

#include "datatypes.h"
#include "statistics.h"

namespace tutti::mpi {

// An MPI_Reduce_local for one operator and type, as an operator of Tutti's. Lives as long as calls use it, also when
// the program has freed operator or type.
class LocalReduction;

struct Reduction {
  tutti_type type = TUTTI_OP_ELEMENT;
  tutti_op op = TUTTI_OP_NULL;
  Layout layout;        // of one element
  bool spread = false;  // elements have gaps: they are copied into memory of their own
  std::shared_ptr<LocalReduction> local;
};

// Reason::none, or why such a reduction is passed on: alike on all ranks, which have the same operator and type.
Reason resolve(MPI_Op op, MPI_Datatype type, Reduction &reduction);

// Forget operators that the program frees. True: it is still used, and freed when that ends.
bool keeps_op(MPI_Op op);
bool keeps_type(MPI_Datatype type);
void forget_operators();

}  // namespace tutti::mpi

// SPDX-License-Identifier: BSD-3-Clause
//
// Which way a collective goes: on Tutti, or on to the MPI. What decides is equal on all ranks of the communicator: how
// it was made, the function, TUTTI_MPI_OFF, and for reductions type and operator.
#pragma once

#include "communicators.h"
#include "state.h"

namespace tutti::mpi {

// Null: it is passed on. Else the operation is prepared. Counts either.
Communicator *route(Mode mode, const Arguments &arguments, Operation &operation);

// The call from beginning to end; what the MPI function returns.
int run(const Communicator &communicator, const Operation &operation, MPI_Comm comm);

}  // namespace tutti::mpi

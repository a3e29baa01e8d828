// SPDX-License-Identifier: BSD-3-Clause
//
// Which of Tutti's communicators stands beside an MPI communicator: an attribute of it. MPI_COMM_WORLD has the world;
// what is made of a communicator that has one, by a call that all its ranks make, has one, too. Others have none: their
// collectives are passed on.
#pragma once

#include "operation.h"

namespace tutti::mpi {

// Null: it has none.
Communicator *find(MPI_Comm comm);

// In begin() and end().
void begin_communicators();
void end_communicators();

}  // namespace tutti::mpi

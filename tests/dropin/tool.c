/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A tool in the chain of MPI's profiling interface: counts calls of MPI_Allreduce and MPI_Comm_dup, and tells them in
 * MPI_Finalize. */
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <stdio.h>

static int reductions, copies;

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++reductions;
  return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made) {
  ++copies;
  return PMPI_Comm_dup(comm, made);
}

int MPI_Finalize(void) {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("tool: %d reductions, %d copies\n", reductions, copies);
  fflush(stdout);
  return PMPI_Finalize();
}

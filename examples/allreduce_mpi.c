/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A Tutti allreduce in an MPI program: mpirun -n 4 allreduce_mpi */
#include <mpi.h>
#include <stdio.h>
#include <tutti/bootstrap_mpi.h>

int main(int argc, char **argv) {
  tutti_comm *world;
  tutti_error error = TUTTI_INIT_STRUCT(tutti_error);
  int rank, ranks;
  float in[3], out[3];

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (tutti_init_mpi(MPI_COMM_WORLD, NULL, &world) != TUTTI_SUCCESS) goto failed;

  for (int i = 0; i < 3; ++i) in[i] = (float)(rank + i);
  if (tutti_allreduce(in, out, 3, TUTTI_FLOAT, TUTTI_SUM, world) != TUTTI_SUCCESS) goto failed;
  if (rank == 0) printf("sum over %d ranks: %g %g %g\n", ranks, out[0], out[1], out[2]);

  if (tutti_comm_free(&world) != TUTTI_SUCCESS) goto failed;
  return MPI_Finalize();

failed:
  tutti_last_error(&error);
  fprintf(stderr, "rank %d: %s\n", rank, error.text);
  return MPI_Abort(MPI_COMM_WORLD, 1);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bootstrap_mpi.h in a program of its own, under mpirun: what it gathers, and that it refuses to work without MPI.
 * tutti_init is replaced by a function that runs the exchange it is given. */
#define TUTTI_MPI_PIECE_BYTES ((size_t)7)
#include "tutti/bootstrap_mpi.h"

#include <stdio.h>
#include <stdlib.h>

static void check(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "failed: %s\n", what);
  abort();
}

static unsigned char pattern(int rank, size_t i) { return (unsigned char)(rank * 31 + (int)i * 7 + 1); }

tutti_result tutti_init(const tutti_bootstrap *bootstrap, const tutti_options *options,
                        tutti_comm **world) TUTTI_NOEXCEPT {
  /* Below a piece, a whole piece, several with a rest, and nothing at all. */
  const size_t sizes[] = {1, 6, 7, 8, 14, 100, 0};
  size_t s, i;
  int rank;
  (void)options;
  check(bootstrap->size == sizeof(tutti_bootstrap), "size is set");
  for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); ++s) {
    const size_t bytes = sizes[s];
    unsigned char *in = (unsigned char *)malloc(bytes + 1);
    unsigned char *out = (unsigned char *)malloc(bytes * (size_t)bootstrap->ranks + 1);
    for (i = 0; i < bytes; ++i) in[i] = pattern(bootstrap->rank, i);
    out[bytes * (size_t)bootstrap->ranks] = 0xa5;
    check(bootstrap->allgather(bootstrap->user, in, out, bytes) == 0, "allgather succeeds");
    for (rank = 0; rank < bootstrap->ranks; ++rank)
      for (i = 0; i < bytes; ++i)
        check(out[(size_t)rank * bytes + i] == pattern(rank, i), "every rank's bytes are in rank order");
    check(out[bytes * (size_t)bootstrap->ranks] == 0xa5, "nothing is written past the end");
    free(in);
    free(out);
  }
  *world = (tutti_comm *)bootstrap->user;
  return TUTTI_SUCCESS;
}

int main(int argc, char **argv) {
  tutti_comm *world = NULL;
  tutti_bootstrap bootstrap;
  MPI_Comm none = MPI_COMM_NULL, all = MPI_COMM_WORLD;
  int rank, ranks;
  check(tutti_init_mpi(MPI_COMM_WORLD, NULL, &world) == TUTTI_ERROR_STATE, "before MPI_Init it is an error");
  MPI_Init(&argc, &argv);
  check(tutti_init_mpi(MPI_COMM_WORLD, NULL, NULL) == TUTTI_ERROR_ARGUMENT, "a null world is an error");
  check(tutti_bootstrap_mpi(&none, &bootstrap) == TUTTI_ERROR_ARGUMENT, "a null communicator is an error");
  check(tutti_bootstrap_mpi(NULL, &bootstrap) == TUTTI_ERROR_ARGUMENT, "a null pointer is an error");
  check(tutti_bootstrap_mpi(&all, &bootstrap) == TUTTI_SUCCESS, "the world is accepted");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(bootstrap.rank == rank && bootstrap.ranks == ranks, "rank and size are MPI's");
  check(tutti_init_mpi(MPI_COMM_WORLD, NULL, &world) == TUTTI_SUCCESS && world != NULL, "bring-up succeeds");
  if (ranks > 1) {
    /* A two-sided communicator has two groups: there is no one world to bring up. */
    MPI_Comm half, inter;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 5, &inter);
    check(tutti_bootstrap_mpi(&inter, &bootstrap) == TUTTI_ERROR_ARGUMENT, "an intercommunicator is refused");
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
  }
  MPI_Finalize();
  check(tutti_init_mpi(MPI_COMM_WORLD, NULL, &world) == TUTTI_ERROR_STATE, "after MPI_Finalize it is an error");
  check(world == NULL, "a failure leaves no world");
  return 0;
}

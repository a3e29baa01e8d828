/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A tool of MPI's profiling interface that says how long the ranks of a program were in blocking collectives: preloaded
 * in front of the drop-in, or alone. MPI_Finalize writes the number of calls, and the seconds of the rank that was in
 * them for longest and of all on average, into the file that BENCH_CLOCK_FILE names. Both names of each function are
 * defined, since Fortran's end in PMPI. */
#define _GNU_SOURCE 1
#define OMPI_SKIP_MPICXX 1
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double seconds;
static long calls;
static __thread int inside; /* an MPI may call itself by these names */

#define NEXT(Name)                      \
  static __typeof__(&PMPI_##Name) next; \
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "PMPI_" #Name)

#define TIMED(Name, parameters, arguments) \
  int PMPI_##Name parameters {             \
    NEXT(Name);                            \
    if (inside++ != 0) {                   \
      const int status = next arguments;   \
      --inside;                            \
      return status;                       \
    }                                      \
    const double began = PMPI_Wtime();     \
    const int status = next arguments;     \
    seconds += PMPI_Wtime() - began;       \
    ++calls;                               \
    --inside;                              \
    return status;                         \
  }                                        \
  int MPI_##Name parameters { return PMPI_##Name arguments; }

#define IN const void *in, int n, MPI_Datatype t
#define OUT void *out, int m, MPI_Datatype u
#define OUT_V void *out, const int *m, const int *d, MPI_Datatype u

TIMED(Barrier, (MPI_Comm c), (c))
TIMED(Bcast, (OUT, int root, MPI_Comm c), (out, m, u, root, c))
TIMED(Allreduce, (const void *in, OUT, MPI_Op op, MPI_Comm c), (in, out, m, u, op, c))
TIMED(Reduce, (const void *in, OUT, MPI_Op op, int root, MPI_Comm c), (in, out, m, u, op, root, c))
TIMED(Reduce_scatter_block, (const void *in, OUT, MPI_Op op, MPI_Comm c), (in, out, m, u, op, c))
TIMED(Reduce_scatter, (const void *in, void *out, const int *m, MPI_Datatype u, MPI_Op op, MPI_Comm c),
      (in, out, m, u, op, c))
TIMED(Scan, (const void *in, OUT, MPI_Op op, MPI_Comm c), (in, out, m, u, op, c))
TIMED(Exscan, (const void *in, OUT, MPI_Op op, MPI_Comm c), (in, out, m, u, op, c))
TIMED(Allgather, (IN, OUT, MPI_Comm c), (in, n, t, out, m, u, c))
TIMED(Allgatherv, (IN, OUT_V, MPI_Comm c), (in, n, t, out, m, d, u, c))
TIMED(Gather, (IN, OUT, int root, MPI_Comm c), (in, n, t, out, m, u, root, c))
TIMED(Gatherv, (IN, OUT_V, int root, MPI_Comm c), (in, n, t, out, m, d, u, root, c))
TIMED(Scatter, (IN, OUT, int root, MPI_Comm c), (in, n, t, out, m, u, root, c))
TIMED(Scatterv, (const void *in, const int *n, const int *d, MPI_Datatype t, OUT, int root, MPI_Comm c),
      (in, n, d, t, out, m, u, root, c))
TIMED(Alltoall, (IN, OUT, MPI_Comm c), (in, n, t, out, m, u, c))
TIMED(Alltoallv, (const void *in, const int *n, const int *e, MPI_Datatype t, OUT_V, MPI_Comm c),
      (in, n, e, t, out, m, d, u, c))

int PMPI_Finalize(void) {
  NEXT(Finalize);
  double mine[3] = {seconds, (double)calls, seconds}, all[3];
  int rank = 0, ranks = 1;
  inside = 1;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
  PMPI_Reduce(mine, all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  PMPI_Reduce(mine + 1, all + 1, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  const char *name = getenv("BENCH_CLOCK_FILE");
  FILE *file = rank == 0 && name != NULL ? fopen(name, "w") : NULL;
  if (file != NULL) {
    fprintf(file, "{\"calls\": %.0f, \"slowest_s\": %.9f, \"mean_s\": %.9f}\n", all[1], all[0], all[2] / ranks);
    fclose(file);
  }
  return next();
}
int MPI_Finalize(void) { return PMPI_Finalize(); }

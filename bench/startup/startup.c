/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that starts up, looks at what that has cost it, and ends: for bench/compare --startup. Rank 0 prints one line
 * of JSON: seconds inside of start-up, from the rank that came last to the one that waited longest; memory that it has
 * not from files (each page shared with others counts by its share), descriptors and threads. With BENCH_MPI the same
 * of MPI_Init. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kSeconds, kMemoryKib, kResidentKib, kDescriptors, kThreads, kFigures };

#ifdef BENCH_MPI
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

static int start(int *rank, int *ranks) {
  if (MPI_Init(NULL, NULL) != MPI_SUCCESS) return 0;
  return MPI_Comm_rank(MPI_COMM_WORLD, rank) == MPI_SUCCESS && MPI_Comm_size(MPI_COMM_WORLD, ranks) == MPI_SUCCESS;
}
static int meet(void) { return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS; }
static int largest(double *figures, int count) {
  return MPI_Allreduce(MPI_IN_PLACE, figures, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS;
}
static int add_up(double *figures, int count) {
  return MPI_Allreduce(MPI_IN_PLACE, figures, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
}
static int leave(void) { return MPI_Finalize() == MPI_SUCCESS; }
static void explain(void) { fprintf(stderr, "startup: MPI failed\n"); }

#else
#include "tutti/tutti.h"

static tutti_comm *world;
static int start(int *rank, int *ranks) {
  return tutti_init(NULL, NULL, &world) == TUTTI_SUCCESS && tutti_comm_rank(world, rank) == TUTTI_SUCCESS &&
         tutti_comm_size(world, ranks) == TUTTI_SUCCESS;
}
static int meet(void) { return tutti_barrier(world) == TUTTI_SUCCESS; }
static int combine(double *figures, int count, int op) {
  return tutti_allreduce(TUTTI_IN_PLACE, figures, (size_t)count, TUTTI_DOUBLE, op, world) == TUTTI_SUCCESS;
}
static int largest(double *figures, int count) { return combine(figures, count, TUTTI_MAX); }
static int add_up(double *figures, int count) { return combine(figures, count, TUTTI_SUM); }
static int leave(void) { return tutti_comm_free(&world) == TUTTI_SUCCESS; }
static void explain(void) {
  tutti_error error = TUTTI_INIT_STRUCT(tutti_error);
  tutti_last_error(&error);
  fprintf(stderr, "startup: %s\n", error.text);
}
#endif

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int entries(const char *folder) {
  int count = -2; /* but for . and .. */
  DIR *listing = opendir(folder);
  if (listing == NULL) return 0;
  while (readdir(listing) != NULL) ++count;
  closedir(listing);
  return count;
}

/* KiB of what is not from files, by share, and of all that is resident. */
static void look(double *own, double *resident) {
  FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  double value = 0;
  *own = *resident = 0;
  if (rollup == NULL) return;
  while (fgets(line, sizeof line, rollup) != NULL) {
    if (sscanf(line, "Pss_Anon: %lf", &value) == 1 || sscanf(line, "Pss_Shmem: %lf", &value) == 1) *own += value;
    if (sscanf(line, "Rss: %lf", &value) == 1) *resident = value;
  }
  fclose(rollup);
}

static int fail(void) {
  explain();
  return 1;
}

int main(void) {
  double most[kFigures + 1], sum[kFigures], own = 0, resident = 0;
  int rank = 0, ranks = 0, i = 0;
  look(&own, &resident);
  most[kSeconds] = now();
  if (!start(&rank, &ranks)) return fail();
  most[kSeconds] = now() - most[kSeconds];
  most[kFigures] = -most[kSeconds]; /* its maximum is the least */
  /* Nobody looks before all are up, and nobody goes before all have looked. */
  if (!meet()) return fail();
  look(&most[kMemoryKib], &most[kResidentKib]);
  most[kMemoryKib] -= own;
  most[kResidentKib] -= resident;
  most[kDescriptors] = entries("/proc/self/fd");
  most[kThreads] = entries("/proc/self/task");
  for (i = 0; i < kFigures; ++i) sum[i] = most[i];
  if (!largest(most, kFigures + 1) || !add_up(sum, kFigures)) return fail();
  if (rank == 0)
    printf(
        "{\"ranks\":%d,\"init_s\":{\"last\":%.6f,\"max\":%.6f},\"memory_kib\":{\"mean\":%.1f,\"max\":%.1f},"
        "\"resident_kib\":{\"mean\":%.1f,\"max\":%.1f},\"descriptors\":%.0f,\"threads\":%.0f}\n",
        ranks, -most[kFigures], most[kSeconds], sum[kMemoryKib] / ranks, most[kMemoryKib], sum[kResidentKib] / ranks,
        most[kResidentKib], most[kDescriptors], most[kThreads]);
  fflush(stdout);
  return leave() ? 0 : fail();
}

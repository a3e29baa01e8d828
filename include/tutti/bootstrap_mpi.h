/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Brings up Tutti among the ranks of an MPI communicator. Header-only: compiled in the caller's program with the
 * caller's MPI, so one libtutti serves every MPI. MPI only carries the addresses at start-up; afterwards it is not
 * used.
 *
 *   MPI_Init(&argc, &argv);
 *   tutti_comm *world;
 *   if (tutti_init_mpi(MPI_COMM_WORLD, NULL, &world) != TUTTI_SUCCESS) ...
 */
#ifndef TUTTI_BOOTSTRAP_MPI_H
#define TUTTI_BOOTSTRAP_MPI_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* NOLINTBEGIN(modernize-use-nullptr): C, also when a C++ program includes it */

/* MPI counts are int: what one rank gives travels in pieces of at most this many bytes (at most INT_MAX). */
#ifndef TUTTI_MPI_PIECE_BYTES
#define TUTTI_MPI_PIECE_BYTES ((size_t)1 << 30)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One piece of every rank, received with a stride of bytes_each, so that it lands in its place without a copy. */
static inline int tutti_mpi_allgather_piece(MPI_Comm comm, const char *in, char *out, size_t bytes, size_t bytes_each) {
  MPI_Datatype piece = MPI_DATATYPE_NULL, strided = MPI_DATATYPE_NULL;
  int status = MPI_Type_contiguous((int)bytes, MPI_BYTE, &piece);
  if (status != MPI_SUCCESS) return status;
  status = MPI_Type_create_resized(piece, 0, (MPI_Aint)bytes_each, &strided);
  MPI_Type_free(&piece);
  if (status != MPI_SUCCESS) return status;
  status = MPI_Type_commit(&strided);
  if (status == MPI_SUCCESS) status = MPI_Allgather(in, (int)bytes, MPI_BYTE, out, 1, strided, comm);
  MPI_Type_free(&strided);
  return status;
}

/* tutti_bootstrap.allgather: `user` points to the communicator. */
static inline int32_t tutti_mpi_allgather(void *user, const void *in, void *out, size_t bytes_each) {
  const MPI_Comm comm = *(const MPI_Comm *)user;
  size_t done = 0;
  while (done < bytes_each) {
    const size_t left = bytes_each - done;
    const size_t bytes = left < TUTTI_MPI_PIECE_BYTES ? left : TUTTI_MPI_PIECE_BYTES;
    const int status = tutti_mpi_allgather_piece(comm, (const char *)in + done, (char *)out + done, bytes, bytes_each);
    if (status != MPI_SUCCESS) return (int32_t)status;
    done += bytes;
  }
  return 0;
}

/* Fills *bootstrap for the ranks of *comm, which must stay valid until tutti_init has returned. The communicator is
 * used as it is, with its error handler, by blocking collectives only. Local. Errors: ARGUMENT for a null pointer, a
 * null communicator or an intercommunicator; STATE if MPI is not initialised or already finalised; BOOTSTRAP if MPI
 * reports an error. */
static inline tutti_result tutti_bootstrap_mpi(MPI_Comm *comm, tutti_bootstrap *bootstrap) {
  int initialised = 0, finalised = 0, inter = 0, rank = 0, ranks = 0;
  if (comm == NULL || bootstrap == NULL || *comm == MPI_COMM_NULL) return TUTTI_ERROR_ARGUMENT;
  if (MPI_Initialized(&initialised) != MPI_SUCCESS || MPI_Finalized(&finalised) != MPI_SUCCESS)
    return TUTTI_ERROR_BOOTSTRAP;
  if (!initialised || finalised) return TUTTI_ERROR_STATE;
  if (MPI_Comm_test_inter(*comm, &inter) != MPI_SUCCESS) return TUTTI_ERROR_BOOTSTRAP;
  if (inter) return TUTTI_ERROR_ARGUMENT;
  if (MPI_Comm_rank(*comm, &rank) != MPI_SUCCESS || MPI_Comm_size(*comm, &ranks) != MPI_SUCCESS)
    return TUTTI_ERROR_BOOTSTRAP;
  bootstrap->size = sizeof(*bootstrap);
  bootstrap->rank = (int32_t)rank;
  bootstrap->ranks = (int32_t)ranks;
  bootstrap->user = comm;
  bootstrap->allgather = tutti_mpi_allgather;
  return TUTTI_SUCCESS;
}

/* tutti_init among the ranks of comm. Collective over comm. Null options: defaults. Errors: those of
 * tutti_bootstrap_mpi (local; tutti_last_error is not set by them), and those of tutti_init. */
static inline tutti_result tutti_init_mpi(MPI_Comm comm, const tutti_options *options, tutti_comm **world) {
  tutti_bootstrap bootstrap;
  tutti_result result;
  if (world == NULL) return TUTTI_ERROR_ARGUMENT;
  *world = NULL;
  result = tutti_bootstrap_mpi(&comm, &bootstrap);
  return result == TUTTI_SUCCESS ? tutti_init(&bootstrap, options, world) : result;
}

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-use-nullptr) */
#endif

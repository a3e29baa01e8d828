// SPDX-License-Identifier: BSD-3-Clause
//
// Functions of the MPI that wait for other ranks, and have nothing to do with Tutti but that its collectives may be
// under way meanwhile.
#include "requests.h"

using namespace tutti::mpi;  // NOLINT: this file only defines the C functions below

// NOLINTBEGIN: MPI's own declarations
// Parameters and names come in parentheses.
#define TUTTI_MPI_ACCOMPANIED(Name, parameters, names)                \
  int MPI_##Name parameters {                                         \
    const Accompanied accompanied;                                    \
    return pass_on([&](const Functions &f) { return f.Name names; }); \
  }                                                                   \
  int PMPI_##Name parameters TUTTI_MPI_ALIAS(MPI_##Name);

extern "C" {

TUTTI_MPI_ACCOMPANIED(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made),
                      (comm, group, tag, made))
TUTTI_MPI_ACCOMPANIED(Intercomm_create,
                      (MPI_Comm local, int leader, MPI_Comm peer, int remote, int tag, MPI_Comm *made),
                      (local, leader, peer, remote, tag, made))
TUTTI_MPI_ACCOMPANIED(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made))
TUTTI_MPI_ACCOMPANIED(Comm_accept, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made),
                      (port, info, root, comm, made))
TUTTI_MPI_ACCOMPANIED(Comm_connect, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made),
                      (port, info, root, comm, made))
TUTTI_MPI_ACCOMPANIED(Comm_spawn,
                      (const char *command, char *argv[], int most, MPI_Info info, int root, MPI_Comm comm,
                       MPI_Comm *made, int codes[]),
                      (command, argv, most, info, root, comm, made, codes))
TUTTI_MPI_ACCOMPANIED(Comm_spawn_multiple,
                      (int count, char *commands[], char **argvs[], const int most[], const MPI_Info infos[], int root,
                       MPI_Comm comm, MPI_Comm *made, int codes[]),
                      (count, commands, argvs, most, infos, root, comm, made, codes))

TUTTI_MPI_ACCOMPANIED(Neighbor_allgather,
                      (const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
                       MPI_Datatype out_type, MPI_Comm comm),
                      (in, in_count, in_type, out, out_count, out_type, comm))
TUTTI_MPI_ACCOMPANIED(Neighbor_allgatherv,
                      (const void *in, int in_count, MPI_Datatype in_type, void *out, const int counts[],
                       const int displs[], MPI_Datatype out_type, MPI_Comm comm),
                      (in, in_count, in_type, out, counts, displs, out_type, comm))
TUTTI_MPI_ACCOMPANIED(Neighbor_alltoall,
                      (const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
                       MPI_Datatype out_type, MPI_Comm comm),
                      (in, in_count, in_type, out, out_count, out_type, comm))
TUTTI_MPI_ACCOMPANIED(Neighbor_alltoallv,
                      (const void *in, const int in_counts[], const int in_displs[], MPI_Datatype in_type, void *out,
                       const int out_counts[], const int out_displs[], MPI_Datatype out_type, MPI_Comm comm),
                      (in, in_counts, in_displs, in_type, out, out_counts, out_displs, out_type, comm))
TUTTI_MPI_ACCOMPANIED(Neighbor_alltoallw,
                      (const void *in, const int in_counts[], const MPI_Aint in_displs[], const MPI_Datatype in_types[],
                       void *out, const int out_counts[], const MPI_Aint out_displs[], const MPI_Datatype out_types[],
                       MPI_Comm comm),
                      (in, in_counts, in_displs, in_types, out, out_counts, out_displs, out_types, comm))

TUTTI_MPI_ACCOMPANIED(Win_create, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),
                      (base, size, unit, info, comm, win))
TUTTI_MPI_ACCOMPANIED(Win_allocate, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
                      (size, unit, info, comm, base, win))
TUTTI_MPI_ACCOMPANIED(Win_allocate_shared,
                      (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
                      (size, unit, info, comm, base, win))
TUTTI_MPI_ACCOMPANIED(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win *win), (info, comm, win))
TUTTI_MPI_ACCOMPANIED(Win_free, (MPI_Win * win), (win))
TUTTI_MPI_ACCOMPANIED(Win_fence, (int assert, MPI_Win win), (assert, win))
TUTTI_MPI_ACCOMPANIED(Win_start, (MPI_Group group, int assert, MPI_Win win), (group, assert, win))
TUTTI_MPI_ACCOMPANIED(Win_complete, (MPI_Win win), (win))
TUTTI_MPI_ACCOMPANIED(Win_wait, (MPI_Win win), (win))
TUTTI_MPI_ACCOMPANIED(Win_lock, (int type, int rank, int assert, MPI_Win win), (type, rank, assert, win))
TUTTI_MPI_ACCOMPANIED(Win_unlock, (int rank, MPI_Win win), (rank, win))
TUTTI_MPI_ACCOMPANIED(Win_lock_all, (int assert, MPI_Win win), (assert, win))
TUTTI_MPI_ACCOMPANIED(Win_unlock_all, (MPI_Win win), (win))
TUTTI_MPI_ACCOMPANIED(Win_flush, (int rank, MPI_Win win), (rank, win))
TUTTI_MPI_ACCOMPANIED(Win_flush_all, (MPI_Win win), (win))

TUTTI_MPI_ACCOMPANIED(File_open, (MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file),
                      (comm, name, mode, info, file))
TUTTI_MPI_ACCOMPANIED(File_close, (MPI_File * file), (file))
TUTTI_MPI_ACCOMPANIED(File_set_view,
                      (MPI_File file, MPI_Offset offset, MPI_Datatype etype, MPI_Datatype filetype, const char *rep,
                       MPI_Info info),
                      (file, offset, etype, filetype, rep, info))
TUTTI_MPI_ACCOMPANIED(File_set_size, (MPI_File file, MPI_Offset size), (file, size))
TUTTI_MPI_ACCOMPANIED(File_sync, (MPI_File file), (file))
TUTTI_MPI_ACCOMPANIED(File_read_all, (MPI_File file, void *buffer, int count, MPI_Datatype type, MPI_Status *status),
                      (file, buffer, count, type, status))
TUTTI_MPI_ACCOMPANIED(File_read_at_all,
                      (MPI_File file, MPI_Offset at, void *buffer, int count, MPI_Datatype type, MPI_Status *status),
                      (file, at, buffer, count, type, status))
TUTTI_MPI_ACCOMPANIED(File_write_all,
                      (MPI_File file, const void *buffer, int count, MPI_Datatype type, MPI_Status *status),
                      (file, buffer, count, type, status))
TUTTI_MPI_ACCOMPANIED(File_write_at_all,
                      (MPI_File file, MPI_Offset at, const void *buffer, int count, MPI_Datatype type,
                       MPI_Status *status),
                      (file, at, buffer, count, type, status))
TUTTI_MPI_ACCOMPANIED(File_read_ordered,
                      (MPI_File file, void *buffer, int count, MPI_Datatype type, MPI_Status *status),
                      (file, buffer, count, type, status))
TUTTI_MPI_ACCOMPANIED(File_write_ordered,
                      (MPI_File file, const void *buffer, int count, MPI_Datatype type, MPI_Status *status),
                      (file, buffer, count, type, status))

}  // extern "C"
// NOLINTEND

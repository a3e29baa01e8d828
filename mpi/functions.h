// SPDX-License-Identifier: BSD-3-Clause
//
// The MPI functions that this library takes the place of, under both of their names, and where calls go on to.
//
// MPI_X and PMPI_X are both defined here, so that calls arrive whoever makes them: the program, a tool that was loaded
// before this library and calls PMPI_X, the MPI's Fortran bindings. What is passed on goes to the next MPI_X in the
// process: a tool's that was loaded after this library, or the MPI library's. That one's own calls of PMPI_X come here
// again; Inside tells that they do, and they go straight to the MPI library.
#pragma once

#include "library.h"

// The second name of a function that is defined here.
#define TUTTI_MPI_TEXT(name) #name
#define TUTTI_MPI_ALIAS(name) __attribute__((alias(TUTTI_MPI_TEXT(name))))

// All but the barrier have counts.
#define TUTTI_MPI_COUNTING(X)                   \
  X(Allreduce, allreduce)                       \
  X(Bcast, bcast)                               \
  X(Reduce, reduce)                             \
  X(Reduce_scatter_block, reduce_scatter_block) \
  X(Reduce_scatter, reduce_scatter)             \
  X(Allgather, allgather)                       \
  X(Allgatherv, allgatherv)                     \
  X(Gather, gather)                             \
  X(Gatherv, gatherv)                           \
  X(Scatter, scatter)                           \
  X(Scatterv, scatterv)                         \
  X(Alltoall, alltoall)                         \
  X(Alltoallv, alltoallv)                       \
  X(Alltoallw, alltoallw)                       \
  X(Scan, scan)                                 \
  X(Exscan, exscan)

#define TUTTI_MPI_COLLECTIVES(X) \
  TUTTI_MPI_COUNTING(X)          \
  X(Barrier, barrier)

#define TUTTI_MPI_OTHERS(X)     \
  X(Init)                       \
  X(Init_thread)                \
  X(Finalize)                   \
  X(Comm_dup)                   \
  X(Comm_dup_with_info)         \
  X(Comm_split)                 \
  X(Comm_split_type)            \
  X(Comm_create)                \
  X(Cart_create)                \
  X(Cart_sub)                   \
  X(Graph_create)               \
  X(Dist_graph_create)          \
  X(Dist_graph_create_adjacent) \
  X(Comm_free)                  \
  X(Comm_disconnect)            \
  X(Op_free)                    \
  X(Type_free)                  \
  X(Wait)                       \
  X(Waitall)                    \
  X(Waitany)                    \
  X(Waitsome)                   \
  X(Test)                       \
  X(Testall)                    \
  X(Testany)                    \
  X(Testsome)                   \
  X(Request_get_status)         \
  X(Request_free)               \
  X(Start)                      \
  X(Startall)                   \
  X(Send)                       \
  X(Ssend)                      \
  X(Rsend)                      \
  X(Recv)                       \
  X(Sendrecv)                   \
  X(Sendrecv_replace)           \
  X(Probe)                      \
  X(Mprobe)                     \
  X(Mrecv)

// Functions that wait for other ranks and are always passed on (passive.cc).
#define TUTTI_MPI_PASSIVE(X) \
  X(Comm_create_group)       \
  X(Intercomm_create)        \
  X(Intercomm_merge)         \
  X(Comm_accept)             \
  X(Comm_connect)            \
  X(Comm_spawn)              \
  X(Comm_spawn_multiple)     \
  X(Neighbor_allgather)      \
  X(Neighbor_allgatherv)     \
  X(Neighbor_alltoall)       \
  X(Neighbor_alltoallv)      \
  X(Neighbor_alltoallw)      \
  X(Win_create)              \
  X(Win_allocate)            \
  X(Win_allocate_shared)     \
  X(Win_create_dynamic)      \
  X(Win_free)                \
  X(Win_fence)               \
  X(Win_start)               \
  X(Win_complete)            \
  X(Win_wait)                \
  X(Win_lock)                \
  X(Win_unlock)              \
  X(Win_lock_all)            \
  X(Win_unlock_all)          \
  X(Win_flush)               \
  X(Win_flush_all)           \
  X(File_open)               \
  X(File_close)              \
  X(File_set_view)           \
  X(File_set_size)           \
  X(File_sync)               \
  X(File_read_all)           \
  X(File_read_at_all)        \
  X(File_write_all)          \
  X(File_write_at_all)       \
  X(File_read_ordered)       \
  X(File_write_ordered)

// Persistent collectives have other names in each MPI, and large counts are in one only.
#if defined(OPEN_MPI)
#define TUTTI_MPI_PERSISTENT_NAME(Name) MPIX_##Name##_init
#define TUTTI_PMPI_PERSISTENT_NAME(Name) PMPIX_##Name##_init
#else
#define TUTTI_MPI_PERSISTENT_NAME(Name) MPI_##Name##_init
#define TUTTI_PMPI_PERSISTENT_NAME(Name) PMPI_##Name##_init
#define TUTTI_MPI_LARGE_COUNTS 1
#endif

namespace tutti::mpi {

struct Functions {
#define TUTTI_MPI_MEMBER(Name, name) \
  decltype(&::MPI_##Name) Name;      \
  decltype(&::MPI_I##name) I##name;  \
  decltype(&::TUTTI_MPI_PERSISTENT_NAME(Name)) Name##_init;
  TUTTI_MPI_COLLECTIVES(TUTTI_MPI_MEMBER)
#undef TUTTI_MPI_MEMBER
#define TUTTI_MPI_MEMBER(Name) decltype(&::MPI_##Name) Name;
  TUTTI_MPI_OTHERS(TUTTI_MPI_MEMBER)
  TUTTI_MPI_PASSIVE(TUTTI_MPI_MEMBER)
#undef TUTTI_MPI_MEMBER
#if defined(TUTTI_MPI_LARGE_COUNTS)
#define TUTTI_MPI_MEMBER(Name, name)        \
  decltype(&::MPI_##Name##_c) Name##_c;     \
  decltype(&::MPI_I##name##_c) I##name##_c; \
  decltype(&::MPI_##Name##_init_c) Name##_init_c;
  TUTTI_MPI_COUNTING(TUTTI_MPI_MEMBER)
#undef TUTTI_MPI_MEMBER
#endif
};

// Where calls that are passed on go to; and the MPI library itself. Looked up at the first use.
const Functions &next();
const Functions &own();

// While it lives, calls of this thread come from the MPI library, or a tool, that one of ours has been passed on to.
class Inside {
 public:
  Inside() { ++depth_; }
  ~Inside() { --depth_; }
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;
  static bool now() { return depth_ != 0; }

 private:
  static thread_local int depth_;
};

// Calls on the next in the chain, or the MPI library where that is what calls.
template <class Call>
int pass_on(Call call) {
  if (Inside::now()) return call(own());
  const Inside inside;
  return call(next());
}

// Ends the process with a line if the MPI in it is not the one that this library was built for.
void refuse_other_mpi();

}  // namespace tutti::mpi

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

#define TUTTI_MPI_COLLECTIVES(X)                \
  X(Allreduce, allreduce)                       \
  X(Bcast, bcast)                               \
  X(Barrier, barrier)                           \
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
  X(Type_free)

namespace tutti::mpi {

struct Functions {
#define TUTTI_MPI_MEMBER(Name, name) decltype(&::MPI_##Name) Name;
  TUTTI_MPI_COLLECTIVES(TUTTI_MPI_MEMBER)
#undef TUTTI_MPI_MEMBER
#define TUTTI_MPI_MEMBER(Name) decltype(&::MPI_##Name) Name;
  TUTTI_MPI_OTHERS(TUTTI_MPI_MEMBER)
#undef TUTTI_MPI_MEMBER
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

// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators of several sizes, made in all the ways that the drop-in follows.
#pragma once

#include <functional>
#include <string>

#include "rank.h"

namespace tutti::test {

// Calls `use` with a communicator of each size from `least` to the number of ranks, on the ranks that are in it; each
// is made in another way, and freed.
inline void with_communicators(int least, const std::function<void(MPI_Comm)> &use) {
  for (int size = least; size <= world().ranks; ++size) {
    const bool member = world().rank < size;
    MPI_Barrier(MPI_COMM_WORLD);  // who waits for others in Tutti, and not in the MPI, leaves them its core
    MPI_Comm comm = MPI_COMM_NULL, inner = MPI_COMM_NULL;
    const int way = size % 4;
    if (way == 0) {
      MPI_Comm_split(MPI_COMM_WORLD, member ? 1 : MPI_UNDEFINED, -world().rank, &comm);  // the other way round
    } else if (way == 1) {
      MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
      int range[1][3] = {{0, size - 1, 1}};
      MPI_Comm_group(MPI_COMM_WORLD, &all);
      MPI_Group_range_incl(all, 1, range, &some);
      MPI_Comm_create(MPI_COMM_WORLD, some, &comm);
      MPI_Group_free(&all);
      MPI_Group_free(&some);
    } else if (way == 2) {
      const int periodic = 0;
      MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &comm);
    } else {
      MPI_Comm_split(MPI_COMM_WORLD, member ? 0 : 1, world().rank, &inner);
      MPI_Comm_dup(inner, &comm);
      MPI_Comm_free(&inner);
    }
    if (member) use(comm);
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  }
}

}  // namespace tutti::test

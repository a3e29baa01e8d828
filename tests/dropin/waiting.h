// SPDX-License-Identifier: BSD-3-Clause
//
// A nonblocking call and one of the ways to wait for it, in turn.
#pragma once

#include "own.h"

namespace tutti::test {

template <class Start>
int waited(Start start) {
  static unsigned way = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  const int status = start(&request);
  if (status != MPI_SUCCESS) return status;
  int done = 0, index = 0;
  MPI_Status about;
  switch (way++ % 4) {
    case 0: return MPI_Wait(&request, &about);
    case 1: {
      int result = MPI_SUCCESS;
      while (done == 0 && result == MPI_SUCCESS) result = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      return result;
    }
    case 2: return MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    default: return MPI_Waitany(1, &request, &index, &about);
  }
}

}  // namespace tutti::test

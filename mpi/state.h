// SPDX-License-Identifier: BSD-3-Clause
//
// The one state of this library in a process: Tutti's world beside MPI_COMM_WORLD, from the end of MPI_Init to the
// beginning of MPI_Finalize. Outside of that, `up` is false and every call passes on.
#pragma once

#include <atomic>
#include <bitset>
#include <string>

#include "arguments.h"
#include "statistics.h"
#include "tutti/tutti.h"

namespace tutti::mpi {

// Tags of messages to oneself on state().self: of copies, and of what completes persistent requests.
inline constexpr int kCopyTag = 0, kFirstRequestTag = 1, kLastRequestTag = 32767;  // which any MPI has

struct State {
  bool up = false;
  bool threads = false;  // MPI_THREAD_MULTIPLE
  int rank = 0;
  tutti_comm *world = nullptr;
  MPI_Comm all = MPI_COMM_NULL;   // copies of MPI_COMM_WORLD and MPI_COMM_SELF for this library's own calls; errors are
  MPI_Comm self = MPI_COMM_NULL;  // returned
  int error_class = MPI_ERR_OTHER;
  std::bitset<kCalls> off;  // by TUTTI_MPI_OFF
  bool tell_statistics = false;
  std::string why_down;
};

State &state();

// After MPI_Init. Collective over MPI_COMM_WORLD. If Tutti cannot start on a rank, it does not on any, rank 0 tells
// why, and all calls are passed on.
void begin();
// Before MPI_Finalize. Collective likewise. Frees all that begin() and later calls made.
void end();

// Hands a failure of Tutti to the communicator's error handler, as a failure of MPI with Tutti's own text; what the
// call then returns.
int raise(MPI_Comm comm, tutti_result result);
// The same for a code of MPI's.
int raise_mpi(MPI_Comm comm, int code);
// The MPI error code for this thread's last error of Tutti.
int error_code(tutti_result result);

}  // namespace tutti::mpi

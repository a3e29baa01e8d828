// SPDX-License-Identifier: BSD-3-Clause
#include "route.h"

#include <new>

namespace tutti::mpi {
namespace {

Communicator *choose(int index, const Arguments &arguments, Operation &operation, Reason &reason) {
  if (state().off.test(static_cast<std::size_t>(index))) {
    reason = Reason::off;
    return nullptr;
  }
  Communicator *const found = find(arguments.comm);
  if (found == nullptr || found->tutti == nullptr) {
    reason = Reason::communicator;
    return nullptr;
  }
  reason = operation.prepare(arguments, *found);
  return reason == Reason::none ? found : nullptr;
}

}  // namespace

Communicator *route(Mode mode, const Arguments &arguments, Operation &operation) {
  const int index = call_index(arguments.collective, mode);
  Reason reason = Reason::none;
  Communicator *const found = choose(index, arguments, operation, reason);
  count(index, reason);
  return found;
}

int run(const Communicator &communicator, const Operation &operation, MPI_Comm comm) {
  if (operation.copies()) {
    const int status = operation.pack();
    if (status != MPI_SUCCESS) return raise_mpi(comm, status);
  }
  const tutti_result result = tutti_run_call(&operation.call(), communicator.tutti);
  if (result != TUTTI_SUCCESS) return raise(comm, result);
  if (!operation.copies()) return MPI_SUCCESS;
  const int status = operation.unpack();
  return status == MPI_SUCCESS ? status : raise_mpi(comm, status);
}

}  // namespace tutti::mpi

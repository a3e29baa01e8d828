// SPDX-License-Identifier: BSD-3-Clause
//
// The blocking collectives.
#include <new>

#include "route.h"
#include "wrappers.h"

namespace tutti::mpi {
namespace {

template <class Pass>
int blocking(const Arguments &arguments, Pass pass) {
  if (!Inside::now() && state().up) {
    try {
      Operation operation;
      if (const Communicator *const found = route(Mode::blocking, arguments, operation))
        return run(*found, operation, arguments.comm);
    } catch (const std::bad_alloc &) {
      return raise_mpi(arguments.comm, MPI_ERR_NO_MEM);
    }
  }
  return pass_on(pass);
}

}  // namespace
}  // namespace tutti::mpi

using namespace tutti::mpi;  // NOLINT: this file only defines the C functions below

// NOLINTBEGIN: MPI's own declarations
#define TUTTI_MPI_BLOCKING(Name, name)                                               \
  int MPI_##Name(TUTTI_PARAMETERS_##name(int, int)) {                                \
    return blocking(arguments_of_##name(TUTTI_NAMES_##name),                         \
                    [&](const Functions &f) { return f.Name(TUTTI_NAMES_##name); }); \
  }                                                                                  \
  int PMPI_##Name(TUTTI_PARAMETERS_##name(int, int)) __attribute__((alias("MPI_" #Name)));

extern "C" {
TUTTI_MPI_COLLECTIVES(TUTTI_MPI_BLOCKING)
}
// NOLINTEND

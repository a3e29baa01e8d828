// SPDX-License-Identifier: BSD-3-Clause
//
// The collectives as programs call them: blocking, nonblocking and persistent; in MPICH with counts of either width.
#include <memory>
#include <new>

#include "requests.h"
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
  const Accompanied accompanied;
  return pass_on(pass);
}

// What is started, or made to be started, outlives the call.
template <class Pass>
int with_request(Mode mode, const Arguments &arguments, MPI_Request *request, Pass pass) {
  if (!Inside::now() && state().up) {
    try {
      auto operation = std::make_unique<Operation>();
      operation->will_outlive_types();
      if (const Communicator *const found = route(mode, arguments, *operation)) {
        return mode == Mode::nonblocking ? requests().start(*found, std::move(operation), arguments.comm, request)
                                         : requests().create(*found, std::move(operation), arguments.comm, request);
      }
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
// One function under both names. `Member` is what it is in Functions.
#define TUTTI_MPI_BLOCKING(symbol, pmpi_symbol, Member, name, Count, Displ)            \
  int symbol(TUTTI_PARAMETERS_##name(Count, Displ)) {                                  \
    return blocking(arguments_of_##name(TUTTI_NAMES_##name),                           \
                    [&](const Functions &f) { return f.Member(TUTTI_NAMES_##name); }); \
  }                                                                                    \
  int pmpi_symbol(TUTTI_PARAMETERS_##name(Count, Displ)) TUTTI_MPI_ALIAS(symbol);

#define TUTTI_MPI_NONBLOCKING(symbol, pmpi_symbol, Member, name, Count, Displ)                      \
  int symbol(TUTTI_PARAMETERS_##name(Count, Displ), MPI_Request *request) {                         \
    return with_request(Mode::nonblocking, arguments_of_##name(TUTTI_NAMES_##name), request,        \
                        [&](const Functions &f) { return f.Member(TUTTI_NAMES_##name, request); }); \
  }                                                                                                 \
  int pmpi_symbol(TUTTI_PARAMETERS_##name(Count, Displ), MPI_Request *) TUTTI_MPI_ALIAS(symbol);

#define TUTTI_MPI_PERSISTENT(symbol, pmpi_symbol, Member, name, Count, Displ)                             \
  int symbol(TUTTI_PARAMETERS_##name(Count, Displ), MPI_Info info, MPI_Request *request) {                \
    return with_request(Mode::persistent, arguments_of_##name(TUTTI_NAMES_##name), request,               \
                        [&](const Functions &f) { return f.Member(TUTTI_NAMES_##name, info, request); }); \
  }                                                                                                       \
  int pmpi_symbol(TUTTI_PARAMETERS_##name(Count, Displ), MPI_Info, MPI_Request *) TUTTI_MPI_ALIAS(symbol);

#define TUTTI_MPI_ALL(Name, name)                                           \
  TUTTI_MPI_BLOCKING(MPI_##Name, PMPI_##Name, Name, name, int, int)         \
  TUTTI_MPI_NONBLOCKING(MPI_I##name, PMPI_I##name, I##name, name, int, int) \
  TUTTI_MPI_PERSISTENT(TUTTI_MPI_PERSISTENT_NAME(Name), TUTTI_PMPI_PERSISTENT_NAME(Name), Name##_init, name, int, int)

#define TUTTI_MPI_ALL_LARGE(Name, name)                                                            \
  TUTTI_MPI_BLOCKING(MPI_##Name##_c, PMPI_##Name##_c, Name##_c, name, MPI_Count, MPI_Aint)         \
  TUTTI_MPI_NONBLOCKING(MPI_I##name##_c, PMPI_I##name##_c, I##name##_c, name, MPI_Count, MPI_Aint) \
  TUTTI_MPI_PERSISTENT(MPI_##Name##_init_c, PMPI_##Name##_init_c, Name##_init_c, name, MPI_Count, MPI_Aint)

extern "C" {
TUTTI_MPI_COLLECTIVES(TUTTI_MPI_ALL)
#if defined(TUTTI_MPI_LARGE_COUNTS)
TUTTI_MPI_COUNTING(TUTTI_MPI_ALL_LARGE)
#endif
}
// NOLINTEND

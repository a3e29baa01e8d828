// SPDX-License-Identifier: BSD-3-Clause
//
// The MPI library's own functions, behind whatever has been loaded before it: what results are compared with.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <dlfcn.h>
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <cstdio>
#include <cstdlib>

namespace tutti::test {

#if defined(OPEN_MPI)
inline constexpr const char *kMpiLibrary = "libmpi.so.40";
#else
inline constexpr const char *kMpiLibrary = "libmpich.so.12";
#endif

template <class Function>
Function own_function(Function, const char *name) {
  void *const library = dlopen(kMpiLibrary, RTLD_LAZY | RTLD_NOLOAD);
  void *const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "no %s in %s\n", name, kMpiLibrary);
    std::_Exit(2);
  }
  return reinterpret_cast<Function>(found);
}

// TUTTI_OWN(Allreduce)(in, out, ...): past the drop-in.
#define TUTTI_OWN(Name)                                                                   \
  ([] {                                                                                   \
    static const auto function = ::tutti::test::own_function(&MPI_##Name, "PMPI_" #Name); \
    return function;                                                                      \
  }())

}  // namespace tutti::test

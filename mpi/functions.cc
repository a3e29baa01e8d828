// SPDX-License-Identifier: BSD-3-Clause
#include "functions.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace tutti::mpi {
namespace {

void *mpi_library() {
  static void *const library = dlopen(kSoname, RTLD_LAZY | RTLD_NOLOAD);
  return library;
}

template <class Function>
void find(Function &function, void *where, const std::string &name) {
  void *const found = dlsym(where, name.c_str());
  if (found == nullptr) {
    std::fprintf(stderr, "tutti-mpi: there is no %s in this process, though this library was built for %s with it\n",
                 name.c_str(), kName);
    std::_Exit(1);
  }
  std::memcpy(&function, &found, sizeof(found));
}

Functions look_up(void *where, const std::string &prefix) {
  Functions functions;
#define TUTTI_MPI_NAME_OF(name) TUTTI_MPI_TEXT(name)
#define TUTTI_MPI_FIND(Name, name)                        \
  find(functions.Name, where, prefix + "MPI_" #Name);     \
  find(functions.I##name, where, prefix + "MPI_I" #name); \
  find(functions.Name##_init, where, prefix + TUTTI_MPI_NAME_OF(TUTTI_MPI_PERSISTENT_NAME(Name)));
  TUTTI_MPI_COLLECTIVES(TUTTI_MPI_FIND)
#undef TUTTI_MPI_FIND
#define TUTTI_MPI_FIND(Name) find(functions.Name, where, prefix + "MPI_" #Name);
  TUTTI_MPI_OTHERS(TUTTI_MPI_FIND)
  TUTTI_MPI_PASSIVE(TUTTI_MPI_FIND)
#undef TUTTI_MPI_FIND
#if defined(TUTTI_MPI_LARGE_COUNTS)
#define TUTTI_MPI_FIND(Name, name)                                 \
  find(functions.Name##_c, where, prefix + "MPI_" #Name "_c");     \
  find(functions.I##name##_c, where, prefix + "MPI_I" #name "_c"); \
  find(functions.Name##_init_c, where, prefix + "MPI_" #Name "_init_c");
  TUTTI_MPI_COUNTING(TUTTI_MPI_FIND)
#undef TUTTI_MPI_FIND
#endif
  return functions;
}

}  // namespace

thread_local int Inside::depth_ = 0;

const Functions &next() {
  static const Functions functions = look_up(RTLD_NEXT, "");
  return functions;
}

const Functions &own() {
  static const Functions functions = look_up(mpi_library(), "P");
  return functions;
}

void refuse_other_mpi() {
  if (dlopen(kOtherSoname, RTLD_LAZY | RTLD_NOLOAD) == nullptr) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    PMPI_Get_library_version(version, &length);
    if (std::strstr(version, kName) != nullptr) return;
    version[std::strcspn(version, "\n")] = '\0';
    std::fprintf(stderr, "tutti-mpi: this library was built for %s, and %s says that it is '%s'\n", kName, kSoname,
                 version);
  } else {
    std::fprintf(stderr, "tutti-mpi: this program uses %s, and this library was built for %s: preload %s instead\n",
                 kOtherName, kName, kOtherBuild);
  }
  std::_Exit(1);
}

}  // namespace tutti::mpi

// SPDX-License-Identifier: BSD-3-Clause
//
// The MPI that this build is for: its header, and how it is told from the other one in a running process.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#pragma GCC visibility push(default)  // what it declares is what this library defines
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif
#pragma GCC visibility pop

namespace tutti::mpi {

#if defined(OPEN_MPI)
inline constexpr const char *kName = "Open MPI";
inline constexpr const char *kSoname = "libmpi.so.40";
inline constexpr const char *kOtherName = "MPICH", *kOtherSoname = "libmpich.so.12";
inline constexpr const char *kOtherBuild = "libtutti-mpi-mpich.so";
#elif defined(MPICH)
inline constexpr const char *kName = "MPICH";
inline constexpr const char *kSoname = "libmpich.so.12";
inline constexpr const char *kOtherName = "Open MPI", *kOtherSoname = "libmpi.so.40";
inline constexpr const char *kOtherBuild = "libtutti-mpi-openmpi.so";
#else
#error "this MPI is neither Open MPI nor MPICH"
#endif

}  // namespace tutti::mpi

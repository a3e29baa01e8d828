// SPDX-License-Identifier: BSD-3-Clause
//
// What the launcher says in the environment: which rank this is, of how many, where they meet, and its place on its
// host. Pure: the environment is given. Invariant: torchrun's variables are used as a whole, or not at all.
#pragma once

#include <string>

#include "base/config.h"
#include "base/result.h"

namespace tutti::bootstrap {

struct Launch {
  int rank = 0;
  int ranks = 1;
  std::string master_address;  // where rank 0 is met; empty: a single rank, nobody to meet
  int master_port = 0;
  // Set if another launcher started several ranks, but not with variables that say where to meet: the caller runs
  // alone, and should be told ("... use tutti/bootstrap_mpi.h").
  std::string warning;
};

// RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as torchrun and tutti-run set them; none of RANK and WORLD_SIZE: a single
// rank. Errors (config) name the variable that is missing or wrong. The meeting point is needed for two ranks or more.
Result<Launch> launcher_environment(const Environment &environment);

// Hints where on its host this process is (LOCAL_RANK, or what Open MPI, MPICH and Slurm set); -1 where nothing usable
// is said. Only hints: what cannot be understood is passed over.
struct LocalPlace {
  int rank = -1;
  int ranks = -1;
};
LocalPlace local_place(const Environment &environment);

}  // namespace tutti::bootstrap

// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-run --mpi mpirun ...: the MPI's own launcher, with the drop-in preloaded in the ranks and nowhere else.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tutti::run {

// The launcher's command with the library that fits it, told to the launcher in its own way: Open MPI's mpirun and
// MPICH's (hydra) are known by what --version says. Errors: no such launcher, another MPI's, no library for it beside
// tutti-run.
Result<std::vector<std::string>> with_drop_in(const std::vector<std::string> &launch, const std::string &preloaded);

// Becomes the command; returns only if that fails.
Error become(const std::vector<std::string> &command);

}  // namespace tutti::run

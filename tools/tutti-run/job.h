// SPDX-License-Identifier: BSD-3-Clause
//
// A job on this host: starts all ranks, passes signals on, collects output and exit statuses, and leaves no process
// behind. After the first failure the others get a grace period to notice by themselves; then they are ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"

namespace tutti::run {

struct JobOptions {
  int ranks = 1;
  bool label = false;
  double grace_s = 10;
  std::vector<std::string> command;
};

// The variables that tell a rank its place, added to what it inherits. A job key of the user's own is kept.
Environment rank_environment(const Environment &inherited, int rank, int ranks, int port, const std::string &key);

// Runs the job to its end: the exit status of the first rank that failed (128 + signal number if a signal ended it), or
// 0. Error if it could not be started.
Result<int> run_job(const JobOptions &options, const Environment &inherited);

}  // namespace tutti::run

// SPDX-License-Identifier: BSD-3-Clause
//
// A small job of two ranks as threads, each over a fault layer: start-up, every kind of traffic with right results
// expected, a wait that sleeps, memory, teardown. How it ended, and what it left behind.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "fault_layer.h"
#include "verbs/explain.h"

namespace tutti::test {

inline constexpr int kJobRanks = 2;

struct RankEnd {
  std::optional<Error> error;  // the first that the library gave
  std::string where;           // in which it came: "start-up", "memory", "traffic", "teardown"
  std::string wrong;           // results that are not right
  std::map<std::string, std::uint64_t> calls, calls_at_start_up;
  int struck = 0;  // calls that were made to fail
};

struct JobEnd {
  std::array<RankEnd, kJobRanks> ranks;
  std::string left;  // what is left of verbs objects, descriptors, threads, files in /dev/shm
};

struct Job {
  std::string device = "auto";
  verbs::DeviceKind kind = verbs::DeviceKind::software;  // whose calls are counted
  std::array<std::vector<CallFault>, kJobRanks> faults;
  Environment variables;  // beside those of every job
  // Ends the process, naming this, if the job hangs.
  std::string name;
};

JobEnd run_job(const Job &job);

}  // namespace tutti::test

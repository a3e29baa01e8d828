// SPDX-License-Identifier: BSD-3-Clause
//
// The first thing that ranks tell each other, and what follows from all of it: same version, same configuration, who
// shares a host, how crowded its cores are, and the job's key. Pure, but for reading who we are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "topology/topology.h"

namespace tutti::api {

// Of fixed size in every version, so that different versions can still tell each other so.
struct Hello {
  char version[16] = {};
  char host[64] = {};           // equal for ranks that can share memory
  char fingerprint[1024] = {};  // configuration that has to agree
  char job_key[128] = {};       // rank 0's, where the bootstrap has none
  std::uint64_t cpus[16] = {};  // mask of allowed CPUs, up to 1024
  std::int32_t usable_cpus = 1;
  std::int32_t pid = 0;
  char machine[160] = {};  // what of its host decides how fast it is, as tuning has it
  char reserved[520] = {};
};
static_assert(sizeof(Hello) == 2048);

struct Group {
  int hosts = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_ranks = 1;
  int ranks_per_core = 1;                  // of the most crowded host, rounded up
  std::vector<std::int32_t> host_of_rank;  // numbered in the order of their first ranks
  std::string job_key;
  std::vector<std::string> machines;  // the kinds of hosts, each once, ascending
};

// Error: config, of settings that are too long to be compared.
Result<Hello> make_hello(const Config &config, const topology::Topology &topology, const std::string &job_key);
// Checks and derives. Errors: version, config, naming the rank and the difference.
Result<Group> understand(std::span<const Hello> hellos, int rank, const std::string &job_key);

// "boot id/network namespace": ranks with the same can reach each other's software device.
std::string host_id();

}  // namespace tutti::api

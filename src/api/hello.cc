// SPDX-License-Identifier: BSD-3-Clause
#include "api/hello.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "api/tuning.h"
#include "base/check.h"
#include "base/version.h"

namespace tutti::api {
namespace {

template <std::size_t N>
void put(char (&field)[N], const std::string &text) {
  std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}
template <std::size_t N>
std::string get(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

struct Host {
  std::uint64_t cpus[16] = {};
  std::int32_t number = -1;  // in the order of their first ranks
  int ranks = 0;
  int quota = 0;  // the most CPUs that a rank under a cgroup quota may use at once; 0: no rank is under one
};

}  // namespace

std::string host_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (boot.empty()) {
    char name[64] = {};
    gethostname(name, sizeof(name) - 1);
    boot = name;
  }
  // The software device is reached by names in the network namespace.
  struct stat net = {};
  const bool known = stat("/proc/self/ns/net", &net) == 0;
  return fmt::format("{}/{}", boot.substr(0, 36), known ? net.st_ino : 0);
}

Result<Hello> make_hello(const Config &config, const topology::Topology &topology, const std::string &job_key) {
  Hello hello;
  put(hello.version, kLibraryVersion);
  put(hello.host, host_id());
  const std::string fingerprint = config_fingerprint(config);
  if (fingerprint.size() >= sizeof(hello.fingerprint))
    return fail(
        Code::config,
        "TUTTI_ALGO has {} characters: with what else the ranks compare, at most {} are possible (name algorithms "
        "by call or by tutti_comm_set_algorithms instead)",
        config.algo.size(), config.algo.size() + sizeof(hello.fingerprint) - 1 - fingerprint.size());
  put(hello.fingerprint, fingerprint);
  put(hello.job_key, job_key);
  for (const int cpu : topology.allowed_cpus())
    if (cpu < 1024) hello.cpus[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
  hello.usable_cpus = topology.usable_cpus();
  put(hello.machine, host_text(topology));
  hello.pid = getpid();
  return hello;
}

Result<Group> understand(std::span<const Hello> hellos, int rank, const std::string &job_key) {
  const Hello &mine = hellos[static_cast<std::size_t>(rank)];
  Group group;
  std::map<std::string, Host> hosts;
  std::set<std::string> machines;
  for (std::size_t other = 0; other < hellos.size(); ++other) {
    const Hello &hello = hellos[other];
    if (get(hello.version) != get(hellos[0].version))
      return tl::unexpected<Error>(
          Error{Code::version,
                fmt::format("rank {} runs version {} and rank 0 runs {}: use one installation on all hosts", other,
                            get(hello.version), get(hellos[0].version)),
                static_cast<int>(other)});
    const std::string difference = config_difference(get(hello.fingerprint), get(hellos[0].fingerprint));
    if (!difference.empty())
      return tl::unexpected<Error>(Error{
          Code::config,
          fmt::format("rank {} is configured differently from rank 0: {} (there: rank 0); set it alike on all ranks",
                      other, difference),
          static_cast<int>(other)});
    Host &host = hosts[get(hello.host)];
    for (int word = 0; word < 16; ++word) host.cpus[word] |= hello.cpus[word];
    if (get(hello.host) == get(mine.host) && other < static_cast<std::size_t>(rank)) ++group.local_rank;
    if (host.ranks == 0) host.number = static_cast<std::int32_t>(hosts.size()) - 1;
    group.host_of_rank.push_back(host.number);
    ++host.ranks;
    machines.insert(get(hello.machine));
    int allowed = 0;
    for (const std::uint64_t word : hello.cpus) allowed += std::popcount(word);
    if (hello.usable_cpus < allowed) host.quota = std::max(host.quota, hello.usable_cpus);
  }
  group.machines.assign(machines.begin(), machines.end());
  group.hosts = static_cast<int>(hosts.size());
  group.local_ranks = hosts[get(mine.host)].ranks;
  for (const auto &[name, host] : hosts) {
    int cpus = 0;
    for (const std::uint64_t word : host.cpus) cpus += std::popcount(word);
    // Ranks bound to different cores together have them all; a quota holds for all of them together, as far as one can
    // know.
    const int usable = std::max(1, host.quota == 0 ? cpus : std::min(cpus, host.quota));
    group.ranks_per_core = std::max(group.ranks_per_core, (host.ranks + usable - 1) / usable);
  }
  group.job_key = job_key.empty() ? get(hellos[0].job_key) : job_key;
  return group;
}

}  // namespace tutti::api

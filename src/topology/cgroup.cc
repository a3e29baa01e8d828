// SPDX-License-Identifier: BSD-3-Clause
#include "topology/cgroup.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace tutti::topology {
namespace {

struct Mount {
  std::string root;   // the group that the mount shows at its top
  std::string point;  // where it is mounted
  bool unified;       // cgroup v2
};

bool has_word(const std::string &list, const std::string &word) {
  std::istringstream words(list);
  for (std::string each; std::getline(words, each, ',');)
    if (each == word) return true;
  return false;
}

// "36 35 0:32 / /sys/fs/cgroup/cpu rw,nosuid shared:9 - cgroup cgroup rw,cpu": see proc_pid_mountinfo(5).
std::optional<Mount> parse_mount(const std::string &line) {
  std::istringstream words(line);
  std::string id, parent, device, root, point, field, type, source, options;
  words >> id >> parent >> device >> root >> point;
  while (words >> field && field != "-") {
  }
  words >> type >> source >> options;
  if (type == "cgroup2") return Mount{root, point, true};
  if (type == "cgroup" && has_word(options, "cpu")) return Mount{root, point, false};
  return std::nullopt;
}

// The group of this process as /proc/self/cgroup has it: "0::/job" (v2), "4:cpu,cpuacct:/job" (v1).
std::optional<std::string> own_group(const std::string &root, bool unified) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (unified ? controllers.empty() : has_word(controllers, "cpu")) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The quota of one group in CPUs; 0 for none or no such group.
double quota_of(const std::string &directory, bool unified) {
  std::string quota;
  double period = 0;
  if (unified) {
    std::ifstream(directory + "/cpu.max") >> quota >> period;  // "150000 100000" or "max 100000"
  } else {
    std::ifstream(directory + "/cpu.cfs_quota_us") >> quota;  // -1: none
    std::ifstream(directory + "/cpu.cfs_period_us") >> period;
  }
  if (quota.empty() || quota == "max" || quota[0] == '-' || period <= 0) return 0;
  return std::strtod(quota.c_str(), nullptr) / period;
}

}  // namespace

double cgroup_cpu_quota(const std::string &root) {
  double tightest = 0;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const std::optional<Mount> mount = parse_mount(line);
    if (!mount) continue;
    std::string group = own_group(root, mount->unified).value_or("/");
    // A container without a cgroup namespace mounts its own group at the top, but is told the path from the host's.
    if (mount->root != "/" && group.starts_with(mount->root)) group.erase(0, mount->root.size());
    // A limit of any group above holds as well.
    while (true) {
      if (group == "/" || group.starts_with("/..")) group.clear();
      const double quota = quota_of(root + mount->point + group, mount->unified);
      if (quota > 0) tightest = tightest > 0 ? std::min(tightest, quota) : quota;
      if (group.empty()) break;
      group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
  }
  return tightest;
}

}  // namespace tutti::topology

// SPDX-License-Identifier: BSD-3-Clause
//
// What a process could leave behind on the host: files in /dev/shm, and abstract sockets.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "base/clock.h"

namespace tutti::test {

// Open MPI's own segments come and go with other people's jobs.
inline std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  DIR *folder = ::opendir("/dev/shm");
  while (const dirent *entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (name.find("vader_segment") == std::string::npos) names.insert(name);
  }
  ::closedir(folder);
  return names;
}

// Those that are there and stay, beside those that were there before. Other tests' may come and go at the same time.
inline std::set<std::string> new_shared_memory_files(const std::set<std::string> &before) {
  const auto without = [](const std::set<std::string> &all, const std::set<std::string> &those) {
    std::set<std::string> rest;
    std::ranges::set_difference(all, those, std::inserter(rest, rest.end()));
    return rest;
  };
  std::set<std::string> left = without(shared_memory_files(), before);
  for (const Deadline deadline = Deadline::after_ms(30'000); !left.empty() && !deadline.passed(); ::usleep(10'000))
    left = without(left, without(left, shared_memory_files()));
  return left;
}

// Names of abstract sockets by the inodes that the kernel lists for them.
inline std::set<std::string> abstract_sockets(const std::set<std::string> *only_inodes = nullptr) {
  std::set<std::string> names;
  std::ifstream list("/proc/net/unix");
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string skipped, inode, name;
    words >> skipped >> skipped >> skipped >> skipped >> skipped >> skipped >> inode >> name;
    if (name.starts_with('@') && (only_inodes == nullptr || only_inodes->contains(inode))) names.insert(name);
  }
  return names;
}

inline std::set<std::string> abstract_sockets_of(int pid) {
  std::set<std::string> inodes;
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/";
  if (DIR *folder = ::opendir(path.c_str())) {
    while (const dirent *entry = ::readdir(folder)) {
      char target[64] = {};
      if (::readlink((path + entry->d_name).c_str(), target, sizeof target - 1) <= 0) continue;
      const std::string text = target;
      if (text.starts_with("socket:[")) inodes.insert(text.substr(8, text.size() - 9));
    }
    ::closedir(folder);
  }
  return abstract_sockets(&inodes);
}

}  // namespace tutti::test

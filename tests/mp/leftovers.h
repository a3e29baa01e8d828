// SPDX-License-Identifier: BSD-3-Clause
//
// What a process could leave behind on the host: files in /dev/shm, and abstract sockets.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

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

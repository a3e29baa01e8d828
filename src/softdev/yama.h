// SPDX-License-Identifier: BSD-3-Clause
//
// Yama, a security module that many distributions switch on: with it a process's memory is readable for debuggers and
// parents only, unless the process allows others. A peer's READ of private memory needs that leave.
#pragma once

#include <sys/prctl.h>

#include <fstream>
#include <string>

namespace tutti::softdev {

// By the text of /proc/sys/kernel/yama/ptrace_scope, empty without Yama. 0 restricts nothing; under 2 and 3 leave given
// here changes nothing.
inline bool yama_asks_for_leave(const std::string &scope) { return scope == "1"; }

// The leave is the whole process's, and there is one only: for a single process or for all of this user's. Peers are
// several, so it is for all, and given where it is needed only.
inline void let_peers_read() {
  std::string scope;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  if (yama_asks_for_leave(scope)) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

}  // namespace tutti::softdev

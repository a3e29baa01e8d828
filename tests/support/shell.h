// SPDX-License-Identifier: BSD-3-Clause
//
// Runs a command line through the shell and keeps what it said and how it ended.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace tutti::test {

struct Outcome {
  int status = -1;     // exit status; -1: ended by a signal
  std::string output;  // standard output and error together
};

inline Outcome shell(const std::string &command) {
  FILE *stream = ::popen(("( " + command + " ) 2>&1").c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer;
  while (const std::size_t got = ::fread(buffer.data(), 1, buffer.size(), stream))
    outcome.output.append(buffer.data(), got);
  const int status = ::pclose(stream);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

}  // namespace tutti::test

// SPDX-License-Identifier: BSD-3-Clause
//
// Starting one rank: fork and exec, with its environment, its output, and the promise that it does not outlive
// tutti-run.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "net/fd.h"

namespace tutti::run {

struct Start {
  std::vector<std::string> command;  // the program, looked up in PATH, and its arguments
  Environment environment;
  bool keep_input = false;  // else standard input is empty
  bool pipe_output = false;
};

struct Process {
  pid_t pid = -1;
  net::Fd output;  // what it writes to standard output and error, if piped; non-blocking
  net::Fd errors;
};

// Error (argument) if the program cannot be executed; sys_errno tells why.
Result<Process> start_process(const Start &start);

}  // namespace tutti::run

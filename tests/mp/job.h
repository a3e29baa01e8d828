// SPDX-License-Identifier: BSD-3-Clause
//
// A launcher for tests: ranks on this host that meet over TCP, each with its own pid, output and exit status, so that a
// test can hurt one of them and look at the others. Ends everything that is left when it goes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "support/patience.h"

namespace tutti::test {

using Extra = std::map<std::string, std::string>;

class Job {
 public:
  Job(int ranks, std::vector<std::string> command, const Extra &extra = {}) : port_(free_port()) {
    for (int rank = 0; rank < ranks; ++rank) {
      ranks_.emplace_back();
      spawn(ranks_.back(), rank, ranks, command, extra);
    }
  }
  ~Job() {
    for (Process &process : ranks_) {
      if (process.pid > 0) {
        ::kill(process.pid, SIGKILL);
        ::waitpid(process.pid, nullptr, 0);
      }
      ::close(process.output);
    }
  }
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  pid_t pid(int rank) { return at(rank).pid; }
  void signal(int rank, int number) { ::kill(at(rank).pid, number); }

  // Reads the rank's output until it has a line that starts so. False when it ended or the time is over.
  bool wait_for(int rank, const std::string &start, int seconds = 60) {
    Process &process = at(rank);
    Patience patience(seconds);
    while (("\n" + process.text).find("\n" + start) == std::string::npos)
      if (!read_some(process, patience)) return false;
    return true;
  }

  // The rank's exit status, 128 + its signal, or -1 if it runs on after that many seconds.
  int wait(int rank, int seconds) {
    Process &process = at(rank);
    Patience patience(seconds);
    while (read_some(process, patience)) {
    }
    if (process.pid <= 0) return process.status;
    int status = 0;
    while (::waitpid(process.pid, &status, WNOHANG) == 0) {
      if (patience.over()) return -1;
      ::usleep(1000);
    }
    process.pid = 0;
    return process.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  // Standard output and error of the rank, as far as they have been read.
  const std::string &text(int rank) { return at(rank).text; }

 private:
  struct Process {
    pid_t pid = 0;
    int output = -1;
    int status = -1;
    bool ended = false;  // its output
    std::string text;
  };

  Process &at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  static int free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr *>(&address), size), 0);
    ::getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size);
    ::close(fd);
    return ntohs(address.sin_port);
  }

  void spawn(Process &process, int rank, int ranks, std::vector<std::string> &command, const Extra &extra) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    std::vector<char *> arguments;
    for (std::string &argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    process.output = ends[0];
    process.pid = ::fork();
    if (process.pid == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
      Extra environment = {{"RANK", std::to_string(rank)},
                           {"WORLD_SIZE", std::to_string(ranks)},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", std::to_string(port_)},
                           {"TUTTI_JOB_KEY", "a key for tests only"}};
      for (const auto &[name, value] : extra) environment[name] = value;
      for (const auto &[name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(ends[1]);
  }

  bool read_some(Process &process, Patience &patience) {
    if (process.ended) return false;
    pollfd readable = {process.output, POLLIN, 0};
    do {
      if (patience.over()) return false;
    } while (::poll(&readable, 1, Patience::kStepMs) <= 0);
    char buffer[4096];
    const ssize_t got = ::read(process.output, buffer, sizeof buffer);
    if (got <= 0) {
      process.ended = true;
      return false;
    }
    process.text.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  int port_;
  std::vector<Process> ranks_;
};

}  // namespace tutti::test

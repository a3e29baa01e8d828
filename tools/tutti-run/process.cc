// SPDX-License-Identifier: BSD-3-Clause
#include "process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace tutti::run {
namespace {

struct Pipe {
  net::Fd read, write;
};

Result<Pipe> new_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(Code::limit, errno, "cannot make a pipe");
  return Pipe{net::Fd(ends[0]), net::Fd(ends[1])};
}

std::vector<char *> pointers(std::vector<std::string> &texts) {
  std::vector<char *> result;
  for (std::string &text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> assignments(const Environment &environment) {
  std::vector<std::string> result;
  for (const auto &[name, value] : environment) result.push_back(name + "=" + value);
  return result;
}

// In the child, between fork and exec: system calls only.
struct Child {
  char *const *command;
  char *const *environment;
  pid_t parent;
  int input, output, errors;  // -1: as inherited
  int report;

  [[noreturn]] void run() const {
    // Dies with tutti-run, even if that is killed; if it was gone before this call, the parent is another by now.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    if (input >= 0) ::dup2(input, STDIN_FILENO);
    if (output >= 0) ::dup2(output, STDOUT_FILENO);
    if (errors >= 0) ::dup2(errors, STDERR_FILENO);
    // tutti-run takes its signals from a descriptor and ignores broken pipes; its ranks have neither habit.
    ::signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execvpe(command[0], command, environment);
    const int number = errno;
    [[maybe_unused]] const ssize_t written = ::write(report, &number, sizeof number);
    ::_exit(127);
  }
};

// Waits until the exec has closed the pipe, or has failed and said why.
int exec_failure(const net::Fd &report) {
  int number = 0;
  ssize_t got;
  do {
    got = ::read(report.get(), &number, sizeof number);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof number) ? number : 0;
}

}  // namespace

Result<Process> start_process(const Start &start) {
  std::vector<std::string> command = start.command, environment = assignments(start.environment);
  const std::vector<char *> command_pointers = pointers(command), environment_pointers = pointers(environment);
  TUTTI_TRY(Pipe report, new_pipe());
  Pipe output, errors;
  if (start.pipe_output) {
    TUTTI_TRY(output, new_pipe());
    TUTTI_TRY(errors, new_pipe());
    for (const Pipe *pipe : {&output, &errors}) ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
  }
  net::Fd nothing;
  if (!start.keep_input) {
    nothing = net::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!nothing) return fail_errno(Code::system, errno, "cannot open /dev/null");
  }
  const Child child{command_pointers.data(), environment_pointers.data(), ::getpid(),        nothing.get(),
                    output.write.get(),      errors.write.get(),          report.write.get()};
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno(Code::limit, errno, "cannot start another process");
  if (pid == 0) child.run();
  report.write.reset();
  if (const int number = exec_failure(report.read); number != 0) {
    ::waitpid(pid, nullptr, 0);
    return fail_errno(Code::argument, number, "cannot start '{}'", start.command.front());
  }
  return Process{pid, std::move(output.read), std::move(errors.read)};
}

}  // namespace tutti::run

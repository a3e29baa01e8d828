// SPDX-License-Identifier: BSD-3-Clause
#include "job.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>

#include "lines.h"
#include "net/hello.h"
#include "net/poll_until.h"
#include "net/socket.h"
#include "process.h"

namespace tutti::run {
namespace {

// Between asking a rank to end and ending it: time to flush files, not to finish work.
constexpr std::int64_t kTermToKill = 2 * kNanosecondsPerSecond;

// Failures this close together are one event; a rank that a signal ended, not one of ours, is then taken for its cause.
constexpr std::int64_t kSameMoment = kNanosecondsPerSecond;

struct Rank {
  pid_t pid = -1;  // -1: ended
  net::Fd output, errors;
  Lines output_lines, error_lines;
};

void say(const std::string &text) {
  const std::string line = "tutti-run: " + text + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

// A port that is free now. Should someone take it before rank 0 does, the ranks meet at one of those that follow.
Result<int> free_port() {
  TUTTI_TRY(const net::Fd listener, net::tcp_listen(*net::parse_address("127.0.0.1")));
  const auto bound = net::local_endpoint(listener);
  if (!bound) return fail(Code::system, "cannot find a free port on 127.0.0.1");
  return bound->port;
}

std::vector<pid_t> own_children() {
  std::ifstream list(fmt::format("/proc/self/task/{}/children", ::getpid()));
  return {std::istream_iterator<pid_t>(list), std::istream_iterator<pid_t>()};
}

class Job {
 public:
  Job(const JobOptions &options, const Environment &inherited) : options_(options), inherited_(inherited) {}
  ~Job() { end_everything(); }

  Result<> start();
  int run();

 private:
  void handle_signals();
  void reap();
  void ended(std::size_t rank, int status);
  void signal_all(int number);
  void escalate(std::int64_t now);
  void read_output(net::Fd &source, Lines &lines, bool last);
  void read_all_output(bool last);
  void end_everything();
  bool running() const;

  const JobOptions &options_;
  const Environment &inherited_;
  net::Fd signals_;
  std::vector<Rank> ranks_;
  int exit_status_ = 0;     // of the first failure
  bool signalled_ = false;  // that one was ended by a signal
  std::int64_t failed_at_ = 0;
  bool ending_ = false;       // a rank failed, or the job was interrupted
  bool interrupted_ = false;  // by a signal to tutti-run
  bool asked_ = false;        // SIGTERM has been sent
  std::int64_t escalate_at_ = INT64_MAX;
};

Result<> Job::start() {
  // Processes that a rank leaves behind become ours, so that they can be ended with the job.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::sigaddset(&taken, number);
  ::sigprocmask(SIG_BLOCK, &taken, nullptr);
  signals_ = net::Fd(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return fail_errno(Code::system, errno, "cannot wait for signals");
  TUTTI_TRY(const int port, free_port());
  const std::string key = net::draw_job_key();
  for (int rank = 0; rank < options_.ranks; ++rank) {
    TUTTI_TRY(Process process,
              start_process({.command = options_.command,
                             .environment = rank_environment(inherited_, rank, options_.ranks, port, key),
                             .keep_input = rank == 0,
                             .pipe_output = options_.label}));
    ranks_.push_back({process.pid, std::move(process.output), std::move(process.errors), Lines(rank, STDOUT_FILENO),
                      Lines(rank, STDERR_FILENO)});
  }
  return {};
}

bool Job::running() const {
  for (const Rank &rank : ranks_)
    if (rank.pid >= 0) return true;
  return false;
}

int Job::run() {
  while (running()) {
    std::vector<pollfd> polls = {{signals_.get(), POLLIN, 0}};
    for (const Rank &rank : ranks_)
      for (const net::Fd *source : {&rank.output, &rank.errors})
        if (*source) polls.push_back({source->get(), POLLIN, 0});
    net::poll_until(polls, escalate_at_);
    read_all_output(false);
    handle_signals();
    reap();
    escalate(now_ns());
  }
  read_all_output(true);
  return exit_status_;
}

void Job::handle_signals() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    // What the terminal sends (SI_KERNEL) has reached the ranks already: they are in the same process group.
    if (info.ssi_code != SI_KERNEL) signal_all(number);
    if (number == SIGUSR1 || number == SIGUSR2) continue;
    const std::int64_t now = now_ns();
    asked_ = true;
    if (interrupted_) escalate_at_ = now;  // asked again: no more patience
    else if (!ending_) escalate_at_ = now + static_cast<std::int64_t>(options_.grace_s * 1e9);
    interrupted_ = ending_ = true;
  }
}

void Job::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].pid == pid) ended(rank, status);
  }
}

void Job::ended(std::size_t rank, int status) {
  ranks_[rank].pid = -1;
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  // A dying process closes its connections before it can be waited for: ranks that exit because of it may be seen
  // first.
  const bool cause = WIFSIGNALED(status) && !signalled_ && !asked_ && now_ns() < failed_at_ + kSameMoment;
  if (code == 0 || (exit_status_ != 0 && !cause)) return;
  if (exit_status_ == 0) failed_at_ = now_ns();
  exit_status_ = code;
  signalled_ = WIFSIGNALED(status);
  const std::string how =
      WIFSIGNALED(status) ? fmt::format("was ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)))
                          : fmt::format("exited with status {}", code);
  const bool others = running();
  say(fmt::format("rank {} {}{}", rank, how,
                  others && !ending_ ? fmt::format("; the others have {:g} s to end", options_.grace_s) : ""));
  if (ending_ || !others) return;
  ending_ = true;
  escalate_at_ = now_ns() + static_cast<std::int64_t>(options_.grace_s * 1e9);
}

void Job::signal_all(int number) {
  for (const Rank &rank : ranks_)
    if (rank.pid >= 0) ::kill(rank.pid, number);
}

void Job::escalate(std::int64_t now) {
  if (now < escalate_at_ || !running()) return;
  signal_all(asked_ ? SIGKILL : SIGTERM);
  signal_all(SIGCONT);  // a stopped process would not end by SIGTERM
  escalate_at_ = asked_ ? INT64_MAX : now + kTermToKill;
  asked_ = true;
}

void Job::read_output(net::Fd &source, Lines &lines, bool last) {
  std::array<char, 65536> buffer;
  while (source) {
    const ssize_t got = ::read(source.get(), buffer.data(), buffer.size());
    if (got > 0) lines.add({buffer.data(), static_cast<std::size_t>(got)});
    else if (got < 0 && errno == EINTR) continue;
    else if (got == 0 || errno != EAGAIN || last) source.reset();
    if (got < 0) break;
  }
  if (!source) lines.finish();
}

void Job::read_all_output(bool last) {
  for (Rank &rank : ranks_) {
    if (rank.output) read_output(rank.output, rank.output_lines, last);
    if (rank.errors) read_output(rank.errors, rank.error_lines, last);
  }
}

// Ranks that still run (the job could not be started as a whole), and what ranks left behind.
void Job::end_everything() {
  // Each round ends children whose own children then become ours; a round without any is the last.
  for (std::vector<pid_t> children = own_children(); !children.empty(); children = own_children()) {
    for (const pid_t pid : children) ::kill(pid, SIGKILL);
    for (const pid_t pid : children)
      while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
  }
}

}  // namespace

Environment rank_environment(const Environment &inherited, int rank, int ranks, int port, const std::string &key) {
  Environment environment = inherited;
  const auto file = inherited.find("TUTTI_JOB_KEY_FILE");
  const bool has_file = file != inherited.end() && !file->second.empty();
  environment["RANK"] = environment["LOCAL_RANK"] = std::to_string(rank);
  environment["WORLD_SIZE"] = environment["LOCAL_WORLD_SIZE"] = std::to_string(ranks);
  environment["MASTER_ADDR"] = "127.0.0.1";
  environment["MASTER_PORT"] = std::to_string(port);
  if (!has_file && environment["TUTTI_JOB_KEY"].empty()) environment["TUTTI_JOB_KEY"] = key;
  return environment;
}

Result<int> run_job(const JobOptions &options, const Environment &inherited) {
  Job job(options, inherited);
  TUTTI_TRY(job.start());
  return job.run();
}

}  // namespace tutti::run

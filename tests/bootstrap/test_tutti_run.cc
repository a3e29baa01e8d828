// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-run as its user sees it: output, exit status, errors, and that nothing is left behind.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "base/clock.h"
#include "support/shell.h"

namespace {

using tutti::test::Outcome;

// `arguments` is quoted for the shell.
Outcome tutti_run(const std::string &arguments) {
  return tutti::test::shell(fmt::format("{} {}", TUTTI_RUN, arguments));
}

std::multiset<std::string> lines_of(const std::string &text) {
  std::multiset<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

TEST(TuttiRun, EveryRankIsToldItsPlaceAndADrawnKey) {
  const Outcome outcome = tutti_run(
      "-n 3 --label sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR ${#TUTTI_JOB_KEY}'");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(
      lines_of(outcome.output),
      (std::multiset<std::string>{"[0] 0/3 0/3 127.0.0.1 32", "[1] 1/3 1/3 127.0.0.1 32", "[2] 2/3 2/3 127.0.0.1 32"}));
}

TEST(TuttiRun, AKeyOfTheUsersOwnIsKept) {
  ::setenv("TUTTI_JOB_KEY", "my own key of the day", 1);
  const Outcome outcome = tutti_run("-n 1 sh -c 'echo $TUTTI_JOB_KEY'");
  ::unsetenv("TUTTI_JOB_KEY");
  EXPECT_EQ(outcome.output, "my own key of the day\n");
}

TEST(TuttiRun, ArgumentsAndInputGoToTheProgram) {
  EXPECT_EQ(tutti_run("-n 1 echo -n 5 --label x").output, "5 --label x");
  EXPECT_EQ(tutti_run("-n 1 -- echo y").output, "y\n");
  EXPECT_EQ(tutti_run("-n 2 --label cat < /dev/null").output, "");
  const Outcome outcome = tutti_run("-n 2 --label cat <<END\nfor rank 0\nEND\n");
  EXPECT_TRUE(has(outcome.output, "[0] for rank 0\n")) << outcome.output;
}

TEST(TuttiRun, LabelledLinesDoNotMix) {
  const Outcome outcome = tutti_run(
      "-n 8 --label sh -c 'i=0; while [ $i -lt 200 ]; do printf abcdefghij; printf klmnopqrst; echo; i=$((i+1)); "
      "done'");
  EXPECT_EQ(outcome.status, 0);
  const auto lines = lines_of(outcome.output);
  EXPECT_EQ(lines.size(), 1600u);
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(lines.count(fmt::format("[{}] abcdefghijklmnopqrst", rank)), 200u);
}

TEST(TuttiRun, ALastLineWithoutAnEndIsNotLost) {
  EXPECT_EQ(tutti_run("-n 1 --label printf 'one\\ntwo'").output, "[0] one\n[0] two\n");
}

TEST(TuttiRun, TheExitStatusIsThatOfTheFirstFailure) {
  const Outcome plain = tutti_run("-n 3 sh -c '[ $RANK != 1 ] || exit 7'");
  EXPECT_EQ(plain.status, 7);
  EXPECT_TRUE(has(plain.output, "rank 1 exited with status 7")) << plain.output;
  const Outcome killed = tutti_run("-n 2 sh -c '[ $RANK != 1 ] || kill -SEGV $$'");
  EXPECT_EQ(killed.status, 128 + SIGSEGV);
  EXPECT_TRUE(has(killed.output, "rank 1 was ended by signal 11")) << killed.output;
}

TEST(TuttiRun, AfterAFailureTheOthersAreEndedAfterTheGracePeriod) {
  const std::int64_t before = tutti::now_ns();
  const Outcome outcome = tutti_run("-n 3 --grace 0.2 sh -c 'if [ $RANK = 2 ]; then exit 5; fi; exec sleep 1000'");
  EXPECT_EQ(outcome.status, 5);
  EXPECT_LT(tutti::now_ns() - before, 500 * tutti::kNanosecondsPerSecond);  // it did not wait for the sleep
}

TEST(TuttiRun, ASignalOfItsOwnIsNotTakenForTheCause) {
  EXPECT_EQ(tutti_run("-n 2 --grace 0 sh -c 'if [ $RANK = 1 ]; then exit 5; fi; exec sleep 1000'").status, 5);
}

TEST(TuttiRun, ThoseWhoIgnoreBeingAskedAreEndedToo) {
  const Outcome outcome =
      tutti_run("-n 2 --grace 0 sh -c 'if [ $RANK = 1 ]; then exit 5; fi; trap \"\" TERM; while :; do sleep 1; done'");
  EXPECT_EQ(outcome.status, 5);
}

TEST(TuttiRun, WhatCannotBeStartedIsAClearError) {
  const Outcome absent = tutti_run("-n 2 no-such-program");
  EXPECT_EQ(absent.status, 127);
  EXPECT_TRUE(has(absent.output, "cannot start 'no-such-program': No such file")) << absent.output;
  const Outcome data = tutti_run("-n 2 /etc/passwd");
  EXPECT_EQ(data.status, 126);
  const Outcome none = tutti_run("-n 0 true");
  EXPECT_EQ(none.status, 125);
  EXPECT_TRUE(has(none.output, "0 not in range")) << none.output;
  EXPECT_TRUE(has(tutti_run("-n 2").output, "no program given"));
  EXPECT_TRUE(has(tutti_run("true").output, "--ranks is required"));
  EXPECT_TRUE(has(tutti_run("-n 1 --lable true").output, "unknown option --lable"));
}

// Starts tutti-run directly, waits until every rank has made ready and has written its pid to a file, and gives the
// pids.
class Started {
 public:
  Started(const std::string &make_ready, const std::string &script) {
    char name[] = "/tmp/tutti-run-test-XXXXXX";
    ::close(::mkstemp(name));
    file_ = name;
    pid_ = ::fork();
    if (pid_ == 0) {
      const std::string text = fmt::format("{}; echo $$ >> {}; {}", make_ready, file_, script);
      ::execl(TUTTI_RUN, TUTTI_RUN, "-n", "2", "--grace", "1000", "sh", "-c", text.c_str(), nullptr);
      ::_exit(99);
    }
    while (pids().size() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ~Started() { ::unlink(file_.c_str()); }
  std::set<pid_t> pids() const {
    std::ifstream stream(file_);
    return {std::istream_iterator<pid_t>(stream), std::istream_iterator<pid_t>()};
  }
  pid_t pid() const { return pid_; }
  int wait() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return status;
  }

 private:
  std::string file_;
  pid_t pid_;
};

void await_gone(const std::set<pid_t> &pids) {
  const tutti::Deadline deadline = tutti::Deadline::after_ms(20'000);
  for (const pid_t pid : pids) {
    // A zombie of a killed tutti-run's rank is collected by init in its own time: it runs no more.
    const auto runs = [pid] {
      std::ifstream status(fmt::format("/proc/{}/stat", pid));
      std::string number, name, state;
      return static_cast<bool>(status >> number >> name >> state) && state != "Z" && state != "X";
    };
    while (runs() && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(runs()) << pid;
  }
}

TEST(TuttiRun, SignalsArePassedOn) {
  for (const int number : {SIGINT, SIGTERM}) {
    const Started job("trap 'exit 9' TERM INT", "while :; do sleep 0.01; done");
    const auto ranks = job.pids();
    ::kill(job.pid(), number);
    EXPECT_EQ(WEXITSTATUS(job.wait()), 9);
    await_gone(ranks);
  }
}

TEST(TuttiRun, IfItIsKilledItsRanksEndAsWell) {
  const Started job(":", "exec sleep 1000");
  const auto ranks = job.pids();
  ::kill(job.pid(), SIGKILL);
  job.wait();
  await_gone(ranks);
}

TEST(TuttiRun, WhatRanksLeaveBehindIsEnded) {
  char name[] = "/tmp/tutti-run-test-XXXXXX";
  ::close(::mkstemp(name));
  const Outcome outcome = tutti_run(fmt::format("-n 1 sh -c 'sleep 1000 > /dev/null 2>&1 & echo $! > {}'", name));
  EXPECT_EQ(outcome.status, 0);
  std::ifstream stream(name);
  await_gone({std::istream_iterator<pid_t>(stream), std::istream_iterator<pid_t>()});
  ::unlink(name);
}

TEST(TuttiRun, RanksMeetExchangeConnectAndLeave) {
  for (const char *ranks : {"1", "2", "5", "8"}) {
    const Outcome outcome = tutti_run(fmt::format("-n {} {}", ranks, MEETING_PROGRAM));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(lines_of(outcome.output).size(), static_cast<std::size_t>(std::stoi(ranks))) << outcome.output;
  }
}

TEST(TuttiRun, case_37_AKilledRankIsKnownToAllOthers) {
  const Outcome outcome = tutti_run(fmt::format("-n 4 --label {} die", MEETING_PROGRAM));
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  for (const char *rank : {"[0]", "[2]", "[3]"})
    EXPECT_TRUE(has(outcome.output, fmt::format("{} rank 1 died: its process ended", rank))) << outcome.output;
}

}  // namespace

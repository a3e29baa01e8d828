// SPDX-License-Identifier: BSD-3-Clause
//
// Hosts and launches as they are found: low limits, tiny /dev/shm, no RDMA library, one CPU, signals, late ranks.
#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <cstdio>

#include "job.h"
#include "leftovers.h"
#include "support/shell.h"

namespace tutti::test {
namespace {

constexpr int kPatienceSeconds = 60;  // half of what start-up may take where nobody sets a limit

std::string ranks(int count, const std::string &scenario) {
  return fmt::format("{} -n {} {} {}", TUTTI_RUN, count, MP_RANK, scenario);
}

// In namespaces of its own, as root or as a user.
std::string in_own_mounts(const std::string &script) {
  return fmt::format("unshare {} sh -ec '{}'", ::geteuid() == 0 ? "-m" : "-rm", script);
}

// So many that some may wait for others for long, which is told by default.
std::string crowd(int count) { return "TUTTI_WARN_AFTER=0 " + ranks(count, "crowd"); }

void expect_silent_success(const std::string &command) {
  const Outcome outcome = shell(command);
  EXPECT_EQ(outcome.status, 0) << command;
  EXPECT_EQ(outcome.output, "") << command;
}

TEST(Mess, case_10_ALowMemlockLimitIsOfNoConcernWithoutANic) {
  expect_silent_success("ulimit -l 64; " + ranks(4, "again 2"));
}

TEST(Mess, case_11_WithoutANicNothingIsPrinted) { expect_silent_success(ranks(4, "again 1")); }

TEST(Mess, case_11_WithoutLibibverbsNothingIsPrinted) {
  // An empty file in place of each copy of the library: loading it fails as loading a missing one does.
  const std::string hide =
      "for f in $(ldconfig -p | sed -n \"s/.*libibverbs.so.* => //p\"); do mount --bind /dev/null $(readlink -f $f); "
      "done; ";
  expect_silent_success(in_own_mounts(hide + ranks(4, "again 1")));
  const Outcome named = shell("TUTTI_DEVICE=mlx5_0 " + in_own_mounts(hide + ranks(2, "again 1")));
  EXPECT_NE(named.status, 0);
  EXPECT_NE(named.output.find("mlx5_0"), std::string::npos) << named.output;
}

TEST(Mess, case_22_ATinyDevShmIsEnough) {
  for (const char *size : {"1M", "8M", "64M"})
    expect_silent_success(
        in_own_mounts(fmt::format("mount -t tmpfs -o size={} none /dev/shm; {}", size, ranks(8, "again 2"))));
}

// Where there are none, and where nobody may have any, as in containers that have a limit of 0.
TEST(Mess, case_24_HugePagesAreNotAskedFor) {
  expect_silent_success(ranks(3, "pages"));
  expect_silent_success(ranks(3, "pages denied"));
}

TEST(Mess, case_30_AStormOfSignalsDisturbsNobody) { expect_silent_success(ranks(4, "storm")); }

TEST(Mess, case_30_AThousandWorldsInOneProcess) { expect_silent_success(fmt::format("{} again 1000", MP_RANK)); }

// One after the other at the same meeting point.
TEST(Mess, case_30_AThousandMeetingsOfTheSameRanks) { expect_silent_success(ranks(2, "again 1000")); }
TEST(Mess, case_30_ManyWorldsOfSeveralRanks) { expect_silent_success(ranks(3, "again 30")); }

TEST(Mess, case_31_WithoutLeaveToReadOthersMemoryAllWorksInSilence) { expect_silent_success(ranks(4, "denied")); }

TEST(Mess, case_32_AMissingRankIsNamedWithinTheLimit) {
  Job job(1, {MP_RANK, "loop", "1"}, {{"WORLD_SIZE", "3"}, {"TUTTI_INIT_TIMEOUT", "2"}});
  EXPECT_EQ(job.wait(0, kPatienceSeconds), 4) << job.text(0);
  EXPECT_NE(job.text(0).find("survivor timeout"), std::string::npos) << job.text(0);
  EXPECT_NE(job.text(0).find("ranks 1 and 2"), std::string::npos) << job.text(0);
}

TEST(Mess, case_32_WithoutTheRootTheOthersNameIt) {
  Job job(1, {MP_RANK, "loop", "1"}, {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TUTTI_INIT_TIMEOUT", "2"}});
  EXPECT_EQ(job.wait(0, kPatienceSeconds), 4) << job.text(0);
  EXPECT_NE(job.text(0).find("rank 0"), std::string::npos) << job.text(0);
}

// Later than the pause between two attempts ever gets; a minute is not different (tried by hand).
TEST(Mess, case_32_ALateRootIsWaitedFor) {
  const std::string late = fmt::format("test $RANK != 0 || sleep 3; exec {} again 1", MP_RANK);
  Job job(3, {"sh", "-c", late});
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job.wait(rank, kPatienceSeconds), 0) << job.text(rank);
    EXPECT_EQ(job.text(rank), "");
  }
}

// Under the usual limit of open files.
TEST(Mess, case_33_ManyRanksOnFewCores) {
  for (const int count : {64, 128}) expect_silent_success("ulimit -Sn 1024; " + crowd(count));
}

// Their number is that of the phases, which can be read.
TEST(Mess, case_33_StartUpTakesAsManyExchangesForAnyNumberOfRanks) {
  for (const int count : {2, 9, 20}) {
    const Outcome outcome = shell("TUTTI_LOG=info " + ranks(count, "again 1"));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    std::size_t told = 0;
    for (std::size_t at = 0; (at = outcome.output.find("; 4 exchanges in ", at)) != std::string::npos; ++at) {
      const std::string line = outcome.output.substr(at, outcome.output.find('\n', at) - at);
      for (const char *phase : {": who we are ", ", devices ", ", queue pairs ", ", connecting "})
        EXPECT_NE(line.find(phase), std::string::npos) << line;
      ++told;
    }
    EXPECT_EQ(told, static_cast<std::size_t>(count)) << outcome.output;
  }
}

// A forced algorithm that does not exist for so many ranks: an error on every rank, at the call.
TEST(Mess, AnAlgorithmThatCannotRunForSoManyRanksIsAnError) {
  const Outcome outcome = shell("TUTTI_ALGO=allreduce:direct " + ranks(65, "crowd"));
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.output.find("cannot run for 65 ranks; recursive_doubling, "), std::string::npos) << outcome.output;
  expect_silent_success("TUTTI_ALGO=broadcast:chain " + crowd(65));
}

TEST(Mess, case_35_WaitersSleep) { expect_silent_success(ranks(4, "idle 3")); }

TEST(Mess, case_35_TwoCrowdedJobsAtOnceBothEnd) {
  const std::string one = crowd(16);
  expect_silent_success(one + " & first=$!; " + one + " && wait $first");
}

TEST(Mess, case_36_OneCpuIsEnough) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &allowed)) --last;
  expect_silent_success(fmt::format("taskset -c {} {}", last, ranks(4, "mask")));
}

TEST(Mess, case_36_TheCallersMaskComesBack) {
  for (const char *pin : {"auto", "core", "off"})
    expect_silent_success(fmt::format("TUTTI_PIN={} {}", pin, ranks(2, "mask")));
}

TEST(Mess, TheKeyCanComeFromAFileAndHasToBeTheSame) {
  const std::string right = testing::TempDir() + fmt::format("/key.{}", ::getpid());
  ASSERT_EQ(shell(fmt::format("umask 077; echo a secret of the job alone > {}", right)).status, 0);
  Job job(2, {MP_RANK, "again", "1"}, {{"TUTTI_JOB_KEY", ""}, {"TUTTI_JOB_KEY_FILE", right}});
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(job.wait(rank, kPatienceSeconds), 0) << job.text(rank);
  ::unlink(right.c_str());
  Job without(1, {MP_RANK, "loop", "1"}, {{"TUTTI_JOB_KEY", ""}, {"TUTTI_JOB_KEY_FILE", right}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(without.wait(0, kPatienceSeconds), 4) << without.text(0);
  EXPECT_NE(without.text(0).find(right), std::string::npos) << without.text(0);
}

}  // namespace
}  // namespace tutti::test

// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks that die at any moment: every survivor learns of it and by name, ends as it likes, and nothing stays behind.
#include <fmt/format.h>

#include <filesystem>
#include <random>

#include "job.h"
#include "leftovers.h"
#include "support/matches.h"

namespace tutti::test {
namespace {

constexpr int kPeerGone = 3;   // mp_rank's status after TUTTI_ERROR_PEER
constexpr int kUnstarted = 4;  // and after another error at start-up
constexpr int kKilled = 128 + SIGKILL;
constexpr int kSurvivorSeconds = 5;
constexpr int kPatienceSeconds = 60;  // only what hangs takes so long

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

class Deaths : public testing::Test {
 protected:
  Deaths() : before_(shared_memory_files()), folder_(testing::TempDir() + "/deaths." + std::to_string(::getpid())) {
    std::filesystem::create_directory(folder_);
  }
  ~Deaths() override {
    EXPECT_EQ(new_shared_memory_files(before_), std::set<std::string>());
    std::filesystem::remove_all(folder_);
  }

  Extra survivors_write() const { return {{"MP_FOLDER", folder_}}; }

  // Everyone but `dead` has got TUTTI_ERROR_PEER that names it, has written a file, and has exited with 3.
  void expect_survivors(Job &job, int dead) {
    for (int rank = 0; rank < job.size(); ++rank) {
      if (rank == dead) continue;
      const pid_t pid = job.pid(rank);
      EXPECT_EQ(job.wait(rank, kSurvivorSeconds), kPeerGone) << "rank " << rank << ": " << job.text(rank);
      EXPECT_TRUE(has(job.text(rank), fmt::format("survivor peer {} rank {} is gone", dead, dead)))
          << "rank " << rank << ": " << job.text(rank);
      EXPECT_TRUE(std::filesystem::exists(fmt::format("{}/survivor.{}", folder_, pid))) << "rank " << rank;
    }
  }

  std::set<std::string> before_;
  std::string folder_;
};

std::vector<std::string> loop(std::size_t count) { return {MP_RANK, "loop", std::to_string(count)}; }

void all_ready(Job &job) {
  for (int rank = 0; rank < job.size(); ++rank) ASSERT_TRUE(job.wait_for(rank, "ready")) << job.text(rank);
}

// 1 element: mostly between calls and in their latency; 4 M: inside of the streaming of one.
TEST_F(Deaths, case_37_KilledInASmallAllreduce) {
  Job job(8, loop(1), survivors_write());
  all_ready(job);
  job.signal(3, SIGKILL);
  EXPECT_EQ(job.wait(3, kPatienceSeconds), kKilled);
  expect_survivors(job, 3);
}

TEST_F(Deaths, case_37_KilledInALargeAllreduce) {
  Job job(8, loop(4'000'000), survivors_write());
  all_ready(job);
  ::usleep(300'000);  // into the first calls; whichever it is, the outcome has to be the same
  job.signal(3, SIGKILL);
  EXPECT_EQ(job.wait(3, kPatienceSeconds), kKilled);
  expect_survivors(job, 3);
}

TEST_F(Deaths, case_37_RankZeroKilled) {
  Job job(4, loop(1000), survivors_write());
  all_ready(job);
  job.signal(0, SIGKILL);
  expect_survivors(job, 0);
}

TEST_F(Deaths, case_37_KilledBetweenCalls) {
  Job job(4, {MP_RANK, "leave", "kill", "2"}, survivors_write());
  EXPECT_EQ(job.wait(2, kPatienceSeconds), kKilled) << job.text(2);
  expect_survivors(job, 2);
}

TEST_F(Deaths, case_37_ExitWithoutFinalizeIsADeath) {
  Job job(4, {MP_RANK, "leave", "exit", "1"}, survivors_write());
  EXPECT_EQ(job.wait(1, kPatienceSeconds), 0) << job.text(1);
  expect_survivors(job, 1);
}

TEST_F(Deaths, case_37_KilledInsteadOfFinalizing) {
  Job job(4, {MP_RANK, "leave", "finalize", "1"}, survivors_write());
  EXPECT_EQ(job.wait(1, kPatienceSeconds), kKilled) << job.text(1);
  expect_survivors(job, 1);
}

// The seeds of the start-up's phases: with a step of 2 ms each of them is hit.
TEST_F(Deaths, case_37_KilledAtAnyMomentOfStartUp) {
  for (int step = 0; step < 12; ++step) {
    Job job(4, loop(10), {{"TUTTI_INIT_TIMEOUT", "2"}});
    for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(job.wait_for(rank, "start"));
    ::usleep(static_cast<useconds_t>(step) * 2000);
    job.signal(2, SIGKILL);
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == 2) continue;
      const int status = job.wait(rank, 2 + kSurvivorSeconds);
      EXPECT_TRUE(status == kPeerGone || status == kUnstarted)
          << "step " << step << ", rank " << rank << " ended with " << status << ": " << job.text(rank);
      // A rank that comes late is named as well, and finds that rank 0 has given up already.
      EXPECT_TRUE(matches(job.text(rank), "rank 2|ranks ([013](, | and ))*2|rank 0 was not found"))
          << "step " << step << ", rank " << rank << ": " << job.text(rank);
    }
  }
}

TEST_F(Deaths, case_37_AStoppedRankIsNotDead) {
  Job job(4, loop(1000));
  all_ready(job);
  job.signal(2, SIGSTOP);
  EXPECT_EQ(job.wait(1, 3), -1) << "ended while rank 2 was stopped: " << job.text(1);
  job.signal(2, SIGCONT);
  job.signal(0, SIGUSR1);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(job.wait(rank, kPatienceSeconds), 0) << job.text(rank);
}

TEST_F(Deaths, SilenceBeyondThePeerTimeoutIsADeath) {
  Job job(3, loop(1000), {{"TUTTI_HEARTBEAT", "1"}, {"TUTTI_PEER_TIMEOUT", "3"}, {"MP_FOLDER", folder_}});
  all_ready(job);
  job.signal(2, SIGSTOP);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(job.wait(rank, kPatienceSeconds), kPeerGone) << job.text(rank);
  job.signal(2, SIGCONT);
}

TEST_F(Deaths, case_26_NothingIsLeftBehindByThirtyKillsAtRandomTimes) {
  std::mt19937 draw(26);
  std::set<std::string> sockets;
  for (int round = 0; round < 30; ++round) {
    Job job(3, loop(round % 2 == 0 ? 100 : 300'000), {{"TUTTI_INIT_TIMEOUT", "3"}});
    const int dead = static_cast<int>(draw() % 3);
    ASSERT_TRUE(job.wait_for(dead, "start"));
    ::usleep(draw() % 80'000);
    for (int rank = 0; rank < 3; ++rank) sockets.merge(abstract_sockets_of(job.pid(rank)));
    job.signal(dead, SIGKILL);
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_NE(job.wait(rank, 3 + kSurvivorSeconds), -1) << "round " << round << ", rank " << rank << " hangs";
    ASSERT_EQ(new_shared_memory_files(before_), std::set<std::string>()) << "round " << round;
  }
  EXPECT_FALSE(sockets.empty()) << "no round got as far as its devices";
  const std::set<std::string> left = abstract_sockets();
  for (const std::string &name : sockets) EXPECT_FALSE(left.contains(name)) << name;
}

// Nothing is needed by name once the ranks have met: there is nothing that a cleaner could delete.
TEST_F(Deaths, case_26_ARunningJobHasNoFilesToDelete) {
  Job job(3, loop(1000));
  all_ready(job);
  EXPECT_EQ(new_shared_memory_files(before_), std::set<std::string>());
  job.signal(0, SIGUSR1);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job.wait(rank, kPatienceSeconds), 0) << job.text(rank);
}

}  // namespace
}  // namespace tutti::test

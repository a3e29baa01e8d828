// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks die, and the others go on: each learns of it at once and by name, whatever it was in; a communicator without
// the dead notices nothing; after tutti_comm_shrink everything works among those who live, and the world ends cleanly.
#include <fmt/format.h>

#include <map>

#include "job.h"

namespace tutti::test {
namespace {

// Less than TUTTI_PEER_TIMEOUT, which is 30: not by silence.
constexpr int kErrorSeconds = 25;
constexpr int kAllSeconds = 60;  // of a whole job, on a machine that does other things, too

struct Killing {
  int rank;
  std::string when = "";  // as mp_rank's go_on has it; empty: a call
};

void expect_survivors(int ranks, const std::string &kind, const std::vector<Killing> &killings) {
  std::vector<std::string> command = {MP_RANK, "go_on", kind};
  std::map<int, std::string> dead;
  bool first_exits = false;
  for (const Killing &killing : killings) {
    command.push_back(std::to_string(killing.rank) + (killing.when.empty() ? "" : "@" + killing.when));
    dead[killing.rank] = killing.when;
    first_exits |= killing.when == "exit";
  }
  Job job(ranks, command);
  const int first = killings.front().rank;
  ASSERT_EQ(job.wait(first, kAllSeconds), first_exits ? 0 : 128 + SIGKILL) << job.text(first);
  for (int rank = 0; rank < ranks; ++rank) {
    if (dead.contains(rank)) continue;
    EXPECT_TRUE(job.wait_for(rank, "error rank ", kErrorSeconds)) << "rank " << rank << ": " << job.text(rank);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (dead.contains(rank)) continue;
    EXPECT_EQ(job.wait(rank, kAllSeconds), 0) << "rank " << rank << ": " << job.text(rank);
    EXPECT_TRUE(job.wait_for(rank, fmt::format("alive {}", ranks - dead.size()))) << job.text(rank);
  }
}

TEST(Survival, AfterADeathInALargeAllreduce) {
  for (const int delay : {0, 2000, 15'000}) expect_survivors(5, "large", {{3, fmt::format("call:{}", delay)}});
}
TEST(Survival, AfterADeathInASmallAllreduce) { expect_survivors(8, "small", {{5, "call:3000"}}); }
TEST(Survival, AfterADeathInABarrier) { expect_survivors(4, "barrier", {{1, "call:3000"}}); }
TEST(Survival, AfterADeathAmongMessages) { expect_survivors(4, "message", {{2, "call:3000"}}); }
TEST(Survival, AfterADeathWhileReceivesAreFromAnySource) { expect_survivors(4, "any", {{2, "call:3000"}}); }
TEST(Survival, AfterADeathWhileCommunicatorsAreMade) {
  for (const int delay : {0, 50, 300, 1000, 3000, 7000})
    expect_survivors(5, "make", {{3, fmt::format("call:{}", delay)}});
}
TEST(Survival, AfterADeathOutsideOfCalls) { expect_survivors(4, "idle", {{3, "call:30000"}}); }
TEST(Survival, AfterAnExitWithoutFinalize) { expect_survivors(4, "small", {{1, "exit"}}); }
TEST(Survival, AfterTheDeathOfRankZero) { expect_survivors(4, "small", {{0, "call:1000"}}); }
TEST(Survival, OfTheOnlyOneLeft) { expect_survivors(2, "small", {{0, "call:1000"}}); }
TEST(Survival, AfterTwoDeathsAtOnce) { expect_survivors(6, "large", {{0, "call:4000"}, {4, "call:4000"}}); }

// The leader of the agreement, and one that is none.
TEST(Survival, AfterADeathAtAnyMomentOfAShrink) {
  for (const int delay : {0, 30, 100, 200, 400, 800, 1500})
    for (const int second : {0, 3})
      expect_survivors(5, "small", {{2, "call:1000"}, {second, fmt::format("shrink:{}", delay)}});
}

TEST(Survival, AfterOneLeaderAfterTheOther) {
  expect_survivors(6, "small", {{5, "call:1000"}, {0, "shrink:0"}, {1, "shrink:300"}, {2, "shrink:600"}});
}

TEST(Survival, AfterADeathOnTheCommunicatorThatAShrinkGave) {
  for (const int delay : {0, 1000, 20'000})
    expect_survivors(5, "barrier", {{4, "call:1000"}, {1, fmt::format("after:{}", delay)}});
}

}  // namespace
}  // namespace tutti::test

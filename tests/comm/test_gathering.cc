// SPDX-License-Identifier: BSD-3-Clause
//
// Who tells the flight records of all ranks after a time-out, and what of those that say nothing.
#include <gtest/gtest.h>

#include "comm/gathering.h"
#include "support/world_of_threads.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 4;
constexpr std::int64_t kSecond = kNanosecondsPerSecond;

// All in one thread; nothing arrives by itself.
class Gatherings : public testing::Test {
 protected:
  Gatherings() {
    auto up = bring_up(kRanks, [](int) { return RankSetup{default_config(), {}}; });
    EXPECT_TRUE(up) << up.error().text;
    world_ = std::move(*up);
    for (int rank = 0; rank < kRanks; ++rank) of_.emplace_back(rank, recorder_);
  }
  const comm::Communicator &communicator() { return world_.front()->communicator(); }
  comm::Gathering &of(int rank) { return of_[static_cast<std::size_t>(rank)]; }
  void times_out(int rank) { of(rank).begin(communicator(), "it has waited", 0); }
  // Rank `rank` learns that a call has timed out on another, and what it sends there arrives: so many messages.
  std::size_t learns(int rank, int on) {
    const std::vector<std::string> messages = of(rank).report(communicator(), on, 0);
    for (const std::string &message : messages) arrive(on, message);
    return messages.size();
  }
  void arrive(int rank, const std::string &message) {
    while (rank >= 0) rank = of(rank).hear(communicator(), message);
  }
  std::string told(int rank, std::int64_t now) {
    testing::internal::CaptureStderr();
    of(rank).end_if_due(now);
    return testing::internal::GetCapturedStderr();
  }

  std::vector<std::unique_ptr<Rank>> world_;
  const std::vector<comm::Communicator *> none_;
  const comm::Recorder recorder_{none_};
  std::vector<comm::Gathering> of_;
};

TEST_F(Gatherings, TheLowestOfThoseThatTimeOutTellsForAll) {
  for (const int rank : {1, 3}) times_out(rank);
  EXPECT_EQ(learns(0, 3), 1u);
  EXPECT_EQ(learns(1, 3), 0u) << "rank 3 is to send to it instead";
  EXPECT_EQ(learns(3, 1), 2u) << "its own, and what rank 0 has sent, which may be gone by now";
  EXPECT_EQ(told(1, kSecond / 2), "") << "rank 2 is missing";
  EXPECT_EQ(learns(2, 3), 1u) << "which passes it on";
  EXPECT_EQ(told(3, 2 * kSecond), "");
  const std::string text = told(1, kSecond / 2);
  EXPECT_NE(
      text.find("it has waited; flight records of 4 ranks:\n  rank 0: no operation yet\n  rank 1: no operation yet\n"
                "  rank 2: no operation yet\n  rank 3: no operation yet\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(told(1, 9 * kSecond), "") << "once";
}

TEST_F(Gatherings, WhoIsDeadOrSilentIsSaid) {
  times_out(0);
  of(0).bury(1, "its process ended");
  EXPECT_EQ(learns(2, 0), 1u);
  EXPECT_EQ(learns(2, 0), 0u);
  const std::string of_three = of(3).report(communicator(), 0, 0).front();
  comm::Communicator &other = world_.front()->family().adopt({1, 1}, {0, 3}, {});
  EXPECT_EQ(of(0).hear(other, of_three), -1);
  for (const std::string &wrong : {std::string(), of_three.substr(0, 4), "\x09" + of_three.substr(1)}) arrive(0, wrong);
  EXPECT_EQ(told(0, kSecond - 1), "") << "rank 3 has a second";
  const std::string text = told(0, kSecond);
  EXPECT_NE(text.find("  rank 1: dead: its process ended\n  rank 2: no operation yet\n  rank 3: does not answer; it is "
                      "outside of the library, or stopped\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tutti::test

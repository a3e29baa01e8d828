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

// Keeps what is posted.
class Post final : public control::Control {
 public:
  struct Sent {
    int to;
    std::vector<std::byte> body;
  };
  control::Address address() const override { return {}; }
  Result<> connect(std::span<const control::Address>, Deadline) override { return {}; }
  std::vector<control::Death> deaths() const override { return {}; }
  int event_fd() const override { return -1; }
  void drain_event() override {}
  void post(int rank, std::span<const std::byte> body) override { sent.push_back({rank, {body.begin(), body.end()}}); }
  std::vector<control::Letter> take_letters() override { return {}; }
  void leave(Deadline) override {}
  void abort(const std::string &) override {}

  std::vector<Sent> sent;
};

// All in one thread; nothing arrives by itself.
class Gatherings : public testing::Test {
 protected:
  Gatherings() {
    auto up = bring_up(kRanks, [](int) { return RankSetup{default_config(), {}}; });
    EXPECT_TRUE(up) << up.error().text;
    world_ = std::move(*up);
    for (int rank = 0; rank < kRanks; ++rank) of_.emplace_back(rank, recorder_, &posts_[rank]);
  }
  const comm::Communicator &communicator() { return world_.front()->communicator(); }
  // Rank `rank` learns that a call has timed out on another.
  void learns(int rank, int on) { of_[static_cast<std::size_t>(rank)].report(communicator(), on, 0); }
  void times_out(int rank) { of_[static_cast<std::size_t>(rank)].begin(communicator(), "it has waited", 0); }
  // To whom that rank has written since the last time; and what it wrote arrives.
  std::vector<int> written(int rank) {
    std::vector<int> to;
    for (const Post::Sent &letter : posts_[rank].sent) {
      to.push_back(letter.to);
      EXPECT_TRUE(comm::Gathering::is_record(letter.body));
      of_[static_cast<std::size_t>(letter.to)].hear(rank, letter.body);
    }
    posts_[rank].sent.clear();
    return to;
  }
  std::string told(int rank, std::int64_t now) {
    testing::internal::CaptureStderr();
    of_[static_cast<std::size_t>(rank)].end_if_due(now);
    return testing::internal::GetCapturedStderr();
  }

  std::vector<std::unique_ptr<Rank>> world_;
  const std::vector<comm::Communicator *> none_;
  const comm::Recorder recorder_{none_};
  Post posts_[kRanks];
  std::vector<comm::Gathering> of_;
};

using To = std::vector<int>;

TEST_F(Gatherings, TheLowestOfThoseThatTimeOutTellsForAll) {
  for (const int rank : {1, 3}) times_out(rank);
  learns(1, 3);
  EXPECT_EQ(written(1), To{}) << "rank 3 is to write to it instead";
  learns(3, 1);
  EXPECT_EQ(written(3), To{1});
  for (const int on : {3, 1, 3}) learns(0, on);
  EXPECT_EQ(written(0), (To{3, 1})) << "rank 3 may not know yet that it need not";
  EXPECT_EQ(told(1, kSecond / 2), "") << "rank 2 is missing";
  for (const int on : {1, 3}) learns(2, on);
  EXPECT_EQ(written(2), To{1});
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
  of_[0].bury(1, "its process ended");
  learns(2, 0);
  const std::vector<std::byte> letter = posts_[2].sent.front().body;
  EXPECT_EQ(written(2), To{0});
  of_[0].hear(2, letter);  // twice
  std::vector<std::byte> other = letter;
  other[1] ^= std::byte{1};
  of_[0].hear(3, other);  // of another communicator
  EXPECT_EQ(told(0, kSecond - 1), "") << "rank 3 has a second";
  const std::string text = told(0, kSecond);
  EXPECT_NE(text.find("  rank 1: dead: its process ended\n  rank 2: no operation yet\n  rank 3: does not answer; it is "
                      "outside of the library, or stopped\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tutti::test

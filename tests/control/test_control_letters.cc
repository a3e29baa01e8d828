// SPDX-License-Identifier: BSD-3-Clause
//
// Letters between whole Controls over loopback. Nine ranks: each has two that it is not linked to.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cstring>
#include <map>

#include "base/clock.h"
#include "control_world.h"

namespace tutti::control {
namespace {

constexpr int kRanks = 9;

void post(Control &control, int to, int value) { control.post(to, std::as_bytes(std::span(&value, 1))); }

int value_of(const Letter &letter) {
  int value = -1;
  EXPECT_EQ(letter.body.size(), sizeof value);
  std::memcpy(&value, letter.body.data(), std::min(sizeof value, letter.body.size()));
  return value;
}

// Sleeps on the event until there are letters.
std::vector<Letter> await_letters(Control &control) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (!deadline.passed()) {
    std::vector<Letter> letters = control.take_letters();
    if (!letters.empty()) return letters;
    pollfd event{control.event_fd(), POLLIN, 0};
    ::poll(&event, 1, deadline.left_ms());
    control.drain_event();
  }
  ADD_FAILURE() << "no letter";
  return {};
}

void expect_no_deaths(const World &world) {
  for (const auto &control : world) EXPECT_TRUE(control->deaths().empty());
}

TEST(ControlLetters, EveryRankReachesEveryOther) {
  constexpr int kEach = 5;
  World world = connected(kRanks);
  on_each(world, [](int rank, Control &control) {
    for (int value = 0; value < kEach; ++value)
      for (int to = 0; to < kRanks; ++to)
        if (to != rank) post(control, to, value);
    std::map<int, std::vector<int>> came;
    std::uint64_t count = 0;
    while (count < (kRanks - 1) * kEach) {
      const std::vector<Letter> letters = await_letters(control);
      if (letters.empty()) return;  // and said so
      for (const Letter &letter : letters) {
        if (letter.body.empty()) continue;  // a busy host: no rank has looked for half a second
        came[letter.from].push_back(value_of(letter));
        ++count;
      }
    }
    EXPECT_EQ(came.size(), static_cast<std::size_t>(kRanks - 1));
    for (const auto &[from, values] : came) EXPECT_EQ(values, (std::vector<int>{0, 1, 2, 3, 4})) << from << rank;
    EXPECT_GE(control.changes().load(), count);
  });
  leave_all(world);
  expect_no_deaths(world);
}

TEST(ControlLetters, WhoDoesNotLookIsKnownToLiveAndStillHasItsLetters) {
  World world = connected(kRanks, [](Options &options) { options.heartbeat_s = 1; });
  const std::int64_t start = now_ns();
  post(*world[0], 3, 11);
  // Twice at least; on a busy host more of them may have come by the time that one looks.
  std::uint64_t news = 0;
  while (news < 2 && !HasFailure())
    for (const Letter &letter : await_letters(*world[0])) {
      EXPECT_EQ(letter.from, 3);
      EXPECT_TRUE(letter.body.empty());
      EXPECT_GE(now_ns() - start, 500 * kNanosecondsPerMillisecond);
      ++news;
    }
  EXPECT_GE(world[0]->changes().load(), news);
  EXPECT_EQ(world[3]->changes().load(), 1u);
  const std::vector<Letter> letters = world[3]->take_letters();
  ASSERT_EQ(letters.size(), 1u);
  EXPECT_EQ(letters[0].from, 0);
  EXPECT_EQ(value_of(letters[0]), 11);
  // What 3 says next comes after all news of letters that waited; then there is no more.
  post(*world[3], 0, 12);
  for (bool last = false; !last && !HasFailure();)
    for (const Letter &letter : await_letters(*world[0])) last = !letter.body.empty();
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_TRUE(world[0]->take_letters().empty());
  leave_all(world);
  expect_no_deaths(world);
}

TEST(ControlLetters, TheEventIsReadableWhenThereAreSome) {
  World world = connected(2);
  pollfd event{world[1]->event_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, 0), 0);
  post(*world[0], 1, 1);
  EXPECT_EQ(::poll(&event, 1, static_cast<int>(kPatienceMs)), 1);
  EXPECT_EQ(world[1]->changes().load(), 1u);
  EXPECT_EQ(world[1]->take_letters().size(), 1u);
  world[1]->drain_event();
  EXPECT_EQ(::poll(&event, 1, 0), 0);
  leave_all(world);
}

TEST(ControlLetters, OnesPostedBeforeConnectingGoOutWithTheLink) {
  World world = listening(2);
  post(*world[0], 1, 1);
  connect_all(world);
  const std::vector<Letter> letters = await_letters(*world[1]);
  ASSERT_EQ(letters.size(), 1u);
  EXPECT_EQ(value_of(letters[0]), 1);
  leave_all(world);
}

TEST(ControlLetters, WhoeverPostsAndLeavesAtOnceIsNoDeathToAnyone) {
  for (int round = 0; round < 30; ++round) {
    World world = connected(kRanks);
    on_each(world, [round](int rank, Control &control) {
      for (int to = 0; to < kRanks; ++to)
        if (to != rank && (round + rank) % 3 != 0) post(control, to, round);
      for (int i = 0; i < rank * round; ++i) std::this_thread::yield();
      control.leave(Deadline::after_ms(kPatienceMs));
    });
    expect_no_deaths(world);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

TEST(ControlLetters, OneToARankThatHasLeftIsNoDeath) {
  World world = connected(kRanks);
  world[3]->leave(Deadline::after_ms(kPatienceMs));
  world[3].reset();
  post(*world[0], 3, 1);
  post(*world[0], 6, 1);
  // The news from 6 comes after half a second: by then, five attempts to reach 3 have been refused.
  EXPECT_EQ(await_letters(*world[0])[0].from, 6);
  EXPECT_TRUE(world[0]->deaths().empty());
  leave_all(world);
}

// More letters than sockets hold, to a process that is stopped: the last of them still comes, and all in order.
TEST(ControlLettersProcesses, AFullConnectionLosesTheOldest) {
  constexpr int kLetters = 300'000;
  Processes processes(2, [](Control &control, Processes::Shared &shared) {
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    std::array<int, kLetterBytes / sizeof(int)> body{};
    if (control.address().bytes[0] == shared.addresses[0].bytes[0] &&
        control.address().bytes[1] == shared.addresses[0].bytes[1]) {
      while (!shared.go.load()) std::this_thread::yield();
      for (; body[0] <= kLetters; ++body[0]) control.post(1, std::as_bytes(std::span(body)));
      shared.go.store(false);
      while (shared.finished.load() == 0 && !deadline.passed()) std::this_thread::yield();
      control.leave(deadline);
      return control.deaths().empty() ? 0 : 1;
    }
    int last = -1;
    while (last < kLetters && !deadline.passed())
      for (const Letter &letter : await_letters(control)) {
        int value = -1;
        std::memcpy(&value, letter.body.data(), sizeof value);
        if (value <= last) return 2;
        last = value;
      }
    ++shared.finished;
    control.leave(deadline);
    return last == kLetters ? 0 : 3;
  });
  processes.signal(1, SIGSTOP);
  processes.shared().go.store(true);
  while (processes.shared().go.load()) std::this_thread::yield();
  processes.signal(1, SIGCONT);
  EXPECT_EQ(WEXITSTATUS(processes.wait(0)), 0);
  EXPECT_EQ(WEXITSTATUS(processes.wait(1)), 0);
}

}  // namespace
}  // namespace tutti::control

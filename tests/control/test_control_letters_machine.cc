// SPDX-License-Identifier: BSD-3-Clause
//
// Letters without sockets: which come, in what order, over which links, what happens to those that nobody takes, and
// that they make nobody dead. In a world of 9, the ranks 3 and 6 are the ones that rank 0 has no link to.
#include <gtest/gtest.h>

#include <numeric>

#include "machine_world.h"

namespace tutti::control {
namespace {

constexpr std::int64_t kMillisecond = kNanosecondsPerMillisecond;
using Texts = std::vector<std::string>;

Machine::Setup setup_of(int ranks) {
  return {.rank = 0, .ranks = ranks, .heartbeat_ns = kHeartbeat, .peer_timeout_ns = kTimeout};
}
net::Bytes body(std::uint8_t value) { return {static_cast<std::byte>(value)}; }
Message letter(int from, int to) { return {.kind = Kind::letter, .from = from, .to = to, .body = body(1)}; }

template <class Kind>
std::vector<Kind> only(const std::vector<Action> &actions) {
  std::vector<Kind> found;
  for (const Action &action : actions)
    if (const auto *one = std::get_if<Kind>(&action)) found.push_back(*one);
  return found;
}
std::vector<Send> sent(Machine &machine, Kind kind) {
  std::vector<Send> found = only<Send>(machine.take_actions());
  std::erase_if(found, [kind](const Send &send) { return send.message.kind != kind; });
  return found;
}

void expect_no_deaths(const World &world) {
  for (int rank = 0; rank < world.size(); ++rank) EXPECT_TRUE(world.deaths(rank).empty()) << rank;
}

TEST(Letters, ComeInOrder) {
  World world(2, 1);
  for (const char *text : {"a", "b", "c"}) world.post(0, 1, text);
  world.post(1, 0, "x");
  world.settle();
  EXPECT_EQ(world.take(1), (Texts{"0: a", "0: b", "0: c"}));
  EXPECT_EQ(world.take(0), (Texts{"1: x"}));
  EXPECT_EQ(world.take(1), Texts{});
}

TEST(Letters, ARankWithoutALinkIsDialledOnceAndTheyKeepTheirOrder) {
  World world(9, 2);
  world.settle();
  world.hold_dials();
  for (const char *text : {"a", "b", "c"}) world.post(0, 3, text);
  EXPECT_EQ(world.dials_held(), 1u);
  world.release_dials();
  world.post(0, 3, "d");
  world.settle();
  EXPECT_EQ(world.take(3), (Texts{"0: a", "0: b", "0: c", "0: d"}));
  world.hold_dials();
  world.post(3, 0, "back");
  world.post(0, 1, "to a neighbour");
  EXPECT_EQ(world.dials_held(), 0u);
  world.settle();
  EXPECT_EQ(world.take(0), (Texts{"3: back"}));
  EXPECT_EQ(world.take(1), (Texts{"0: to a neighbour"}));
}

TEST(Letters, BothEndsMayDialAtOnce) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    World world(9, seed);
    world.settle();
    world.hold_dials();
    world.post(0, 3, "a");
    world.post(3, 0, "x");
    EXPECT_EQ(world.dials_held(), 2u);
    world.release_one_dial();
    world.some_deliveries(1);
    world.post(0, 3, "b");
    world.release_dials();
    // Two links now, between which order would be a matter of luck.
    for (const char *text : {"c", "d", "e"}) world.post(0, 3, text);
    world.post(3, 0, "y");
    world.settle();
    ASSERT_EQ(world.take(3), (Texts{"0: a", "0: b", "0: c", "0: d", "0: e"})) << seed;
    ASSERT_EQ(world.take(0), (Texts{"3: x", "3: y"})) << seed;
    world.machine(3).leave();
    world.perform(3);
    world.settle();
    EXPECT_TRUE(world.machine(3).left());
    world.kill(3);
    world.settle();
    expect_no_deaths(world);
  }
}

TEST(Letters, TheNewestOfTooManyAreKept) {
  Texts newest;
  for (std::size_t i = 40 - kMostLetters; i < 40; ++i) newest.push_back("0: " + std::to_string(i));
  World world(9, 3);
  world.settle();
  world.hold_dials();
  for (int i = 0; i < 40; ++i) world.post(0, 3, std::to_string(i));
  world.release_dials();
  world.settle();
  EXPECT_EQ(world.untaken(3), newest);  // where they waited for a link
  for (int i = 0; i < 40; ++i) world.post(0, 1, std::to_string(i));
  world.post(2, 1, "another's");
  world.settle();
  newest.push_back("2: another's");
  Texts untaken = world.untaken(1);
  std::ranges::sort(untaken);
  EXPECT_EQ(untaken, newest);  // where they waited to be taken
}

TEST(Letters, AFullConnectionTakesTheNewestOnceItMoves) {
  Machine machine(setup_of(2), 0);
  machine.opened(7, 1, 0);
  machine.opened(8, 1, 0);
  machine.post(1, body(1));
  machine.clogged(7, true);
  EXPECT_EQ(sent(machine, Kind::letter).size(), 1u);
  for (std::uint8_t i = 10; i < 40; ++i) machine.post(1, body(i));
  EXPECT_TRUE(sent(machine, Kind::letter).empty());  // not over the other link either: they would overtake
  machine.clogged(7, false);
  const std::vector<Send> letters = sent(machine, Kind::letter);
  ASSERT_EQ(letters.size(), kMostLetters);
  EXPECT_EQ(letters.front().message.body, body(40 - kMostLetters));
  EXPECT_EQ(letters.back().message.body, body(39));
  for (const Send &send : letters) EXPECT_EQ(send.link, 7);
}

TEST(DeferredLetters, TheSenderHearsAfterHalfASecondAndAboutEveryHeartbeatUntilTheyAreTaken) {
  World world(2, 4);
  world.settle();
  world.sleep(300 * kMillisecond);
  world.post(0, 1, "a");
  world.settle();
  world.sleep(499 * kMillisecond);
  EXPECT_EQ(world.take(0), Texts{});
  world.sleep(1 * kMillisecond);
  EXPECT_EQ(world.take(0), Texts{"1:"});
  world.sleep(kHeartbeat - 800 * kMillisecond);
  EXPECT_EQ(world.take(0), Texts{"1:"});
  world.sleep(kHeartbeat);
  EXPECT_EQ(world.take(0), Texts{"1:"});
  EXPECT_EQ(world.take(1), Texts{"0: a"});
  world.sleep(20 * kHeartbeat);
  EXPECT_EQ(world.take(0), Texts{});
  world.post(0, 1, "b");
  world.settle();
  world.sleep(500 * kMillisecond);
  EXPECT_EQ(world.take(0), Texts{"1:"});
}

TEST(DeferredLetters, OnesThatAreTakenInTimeAreNot) {
  World world(2, 5);
  world.settle();
  world.post(0, 1, "a");
  world.settle();
  world.sleep(400 * kMillisecond);
  EXPECT_EQ(world.take(1), Texts{"0: a"});
  world.post(0, 1, "b");
  world.settle();
  world.sleep(400 * kMillisecond);
  EXPECT_EQ(world.take(1), Texts{"0: b"});
  world.sleep(10 * kHeartbeat);
  EXPECT_EQ(world.take(0), Texts{});
}

// A sender that repeats pushes its own letters out; that does not start the time anew.
TEST(DeferredLetters, AStreamOfThemIsToldOf) {
  World world(2, 6);
  world.settle();
  for (int i = 0; i < 50; ++i) {
    world.post(0, 1, std::to_string(i));
    world.settle();
    world.sleep(10 * kMillisecond);
  }
  EXPECT_EQ(world.take(0), Texts{"1:"});
}

TEST(DeferredLetters, TheNewsIsNotAnsweredAndDoesNotPileUpOrPushLettersOut) {
  World world(2, 7);
  world.settle();
  world.post(1, 0, "a letter");
  world.settle();
  for (int i = 0; i < 3; ++i) world.post(0, 1, "a");
  world.settle();
  world.sleep(100 * kHeartbeat);
  EXPECT_EQ(world.take(0), (Texts{"1: a letter", "1:"}));
  EXPECT_EQ(world.take(1), (Texts{"0: a", "0: a", "0: a", "0:"}));  // 0 did not look, either
  world.sleep(100 * kHeartbeat);
  EXPECT_EQ(world.take(0), Texts{});
  EXPECT_EQ(world.take(1), Texts{});
}

TEST(DeferredLetters, NoMoreThanOnceASecondHoweverFastTheHeartbeat) {
  Machine machine({.rank = 0, .ranks = 2, .heartbeat_ns = 100 * kMillisecond, .peer_timeout_ns = kTimeout}, 0);
  machine.opened(7, 1, 0);
  machine.received(7, letter(1, 0), 0);
  std::vector<std::int64_t> told;
  for (std::int64_t now = 0; now < 10 * kNanosecondsPerSecond; now = machine.next_time()) {
    machine.tick(now);
    if (!sent(machine, Kind::deferred).empty()) told.push_back(now / kMillisecond);
  }
  EXPECT_EQ(told, (std::vector<std::int64_t>{500, 1500, 2500, 3500, 4500, 5500, 6500, 7500, 8500, 9500}));
}

TEST(DeferredLetters, WakeARankNoMoreThanTwiceASecondAndOnlyWhileTheyAreThere) {
  constexpr int kSeconds = 40;
  World world(33, 8);
  world.settle();
  const int idle = world.sleep(kSeconds * kNanosecondsPerSecond);
  int wakes = 0;
  for (int i = 0; i < kSeconds * 20; ++i) {  // from all sides, and taken now and then, so that they are new ones
    world.post(1 + i % 32, 0, "a");
    world.settle();
    wakes += world.sleep(50 * kMillisecond);
    if (i % 32 == 31) world.take(0);
  }
  EXPECT_GT(wakes, idle + kSeconds / 2);
  EXPECT_LE(wakes, idle + 2 * kSeconds);
  world.take(0);
  EXPECT_LE(world.sleep(kSeconds * kNanosecondsPerSecond), idle + 1);
  expect_no_deaths(world);
}

TEST(LettersToTheDead, AreDropped) {
  Machine machine(setup_of(9), 0);
  for (const int peer : {1, 2, 4, 5, 7, 8}) machine.opened(peer, peer, 0);
  machine.post(3, body(1));  // waits for a link
  machine.received(1, {.kind = Kind::death, .rank = 3, .reason = "it fell"}, 0);
  machine.take_actions();
  machine.post(3, body(2));
  machine.opened(30, 3, 0);
  const std::vector<Action> actions = machine.take_actions();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<Close>(actions[0]).link, 30);
}

TEST(LettersToTheGone, AreDropped) {
  Machine machine(setup_of(2), 0);
  machine.opened(7, 1, 0);
  machine.opened(8, 1, 0);
  machine.clogged(7, true);
  machine.post(1, body(1));
  machine.received(8, {.kind = Kind::goodbye}, 0);
  machine.take_actions();
  machine.clogged(7, false);
  machine.post(1, body(2));
  machine.closed(8, "closed");
  machine.closed(7, "closed");  // it said goodbye on the other
  machine.post(1, body(3));
  EXPECT_TRUE(machine.take_actions().empty());
}

// Only its neighbours know whether it left or died.
TEST(LettersToTheUnreachable, AreDroppedAndMakeNobodyDead) {
  Machine machine(setup_of(9), 0);
  for (const int peer : {1, 2, 4, 5, 7, 8}) machine.opened(peer, peer, 0);
  machine.take_actions();
  machine.post(3, body(1));
  EXPECT_EQ(only<Dial>(machine.take_actions()).size(), 1u);
  machine.unreachable(3, "refused");
  EXPECT_TRUE(machine.take_actions().empty());
  machine.post(3, body(2));
  EXPECT_EQ(only<Dial>(machine.take_actions()).size(), 1u);  // another try
  machine.opened(30, 3, 0);
  const std::vector<Send> letters = sent(machine, Kind::letter);
  ASSERT_EQ(letters.size(), 1u);
  EXPECT_EQ(letters[0].message.body, body(2));
}

TEST(LettersToTheUnreachable, ThatTheRingNeedsAsWellAreADeath) {
  Machine machine(setup_of(9), 0);
  for (const int peer : {1, 2, 4, 5, 7, 8}) machine.opened(peer, peer, 0);
  machine.take_actions();
  machine.post(3, body(1));
  EXPECT_EQ(only<Dial>(machine.take_actions()).size(), 1u);
  for (const int peer : {1, 2}) machine.closed(peer, "closed");  // 3 is the next now
  EXPECT_TRUE(only<Dial>(machine.take_actions()).empty());       // and dialled already
  machine.unreachable(3, "refused");
  const std::vector<Report> reports = only<Report>(machine.take_actions());
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].death.rank, 3);
}

TEST(LettersToTheUnreachable, ThatHasCalledMeanwhileGoOverItsLink) {
  Machine machine(setup_of(9), 0);
  for (const int peer : {1, 2, 4, 5, 7, 8}) machine.opened(peer, peer, 0);
  machine.post(3, body(1));
  machine.opened(30, 3, 0);
  machine.clogged(30, true);
  machine.post(3, body(2));
  machine.unreachable(3, "refused");
  machine.clogged(30, false);
  const std::vector<Action> actions = machine.take_actions();
  EXPECT_TRUE(only<Report>(actions).empty());
  std::size_t letters = 0;
  for (const Send &send : only<Send>(actions)) letters += send.message.kind == Kind::letter ? 1 : 0;
  EXPECT_EQ(letters, 2u);
}

TEST(LettersAndLinks, OneMadeForThemIsLikeAnyOther) {
  World world(9, 9);
  world.settle();
  world.post(0, 3, "a");
  world.settle();
  world.take(3);
  world.pass(100 * kNanosecondsPerSecond);  // heartbeats go over it
  expect_no_deaths(world);
  world.kill(3);
  for (int i = 0; i < 8 && world.deaths(0).empty(); ++i) world.settle();
  for (const int rank : {0, 1, 2, 4, 5, 6, 7, 8}) EXPECT_EQ(world.deaths(rank).size(), 1u);
  Machine machine(setup_of(9), 0);
  machine.opened(30, 3, 0);
  machine.closed(30, "closed");
  EXPECT_EQ(only<Report>(machine.take_actions()).size(), 1u);
}

TEST(LettersAndLeaving, PostedBeforeTheyGoOutBeforeGoodbyeOrNotAtAll) {
  World world(9, 10);
  world.settle();
  world.hold_dials();
  world.post(0, 1, "a");
  world.post(0, 3, "too late");
  world.machine(0).leave();
  world.perform(0);
  world.post(0, 1, "after");
  world.settle();
  EXPECT_TRUE(world.machine(0).left());
  world.release_dials();
  world.settle();
  EXPECT_EQ(world.take(1), Texts{"0: a"});
  EXPECT_EQ(world.take(3), Texts{});
  world.kill(0);
  world.settle();
  expect_no_deaths(world);
}

TEST(LettersAndLeaving, ALinkThatOpensMeanwhileIsWaitedFor) {
  World world(9, 11);
  world.settle();
  world.hold_dials();
  world.post(3, 0, "a");
  world.machine(0).leave();
  world.perform(0);
  world.settle();
  EXPECT_TRUE(world.machine(0).left());
  world.release_dials();
  EXPECT_FALSE(world.machine(0).left());
  world.settle();
  EXPECT_TRUE(world.machine(0).left());
  EXPECT_EQ(world.take(0), Texts{});  // nobody looks there any more
  world.kill(0);
  world.settle();
  world.post(3, 0, "b");
  EXPECT_EQ(world.dials_held(), 0u);  // 3 has been told
  expect_no_deaths(world);
}

TEST(LettersAndLeaving, WhoLeavesOrAbortsTellsNobodyThatLettersWait) {
  for (const bool leaves : {true, false}) {
    Machine machine(setup_of(2), 0);
    machine.opened(7, 1, 0);
    machine.received(7, letter(1, 0), 0);
    if (leaves) machine.leave();
    else machine.abort("");
    machine.received(7, letter(1, 0), 0);
    EXPECT_EQ(only<Deliver>(machine.take_actions()).size(), 1u);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(machine.next_time(), (i + 1) * kHeartbeat);
      machine.tick(machine.next_time());
    }
    EXPECT_TRUE(sent(machine, Kind::deferred).empty());
  }
}

TEST(Letters, FromOrToOthersThanTheEndsOfTheirLinkAreRefused) {
  Machine machine(setup_of(5), 0);
  machine.opened(7, 1, 0);
  machine.take_actions();
  for (const auto &[from, to] : {std::pair{2, 0}, {1, 2}, {0, 1}, {-1, 0}, {1, 5}, {1'000'000, 0}}) {
    machine.received(7, letter(from, to), 0);
    machine.received(7, {.kind = Kind::deferred, .from = from, .to = to}, 0);
  }
  EXPECT_TRUE(machine.take_actions().empty());
  machine.received(7, letter(1, 0), 0);
  machine.received(7, {.kind = Kind::deferred, .from = 1, .to = 0}, 0);
  EXPECT_EQ(only<Deliver>(machine.take_actions()).size(), 2u);
}

// In a world where letters go all ways, and ranks either die or leave.
class Turmoil {
 public:
  Turmoil(unsigned seed, bool dying) : random_(seed), ranks_(between(2, 20)), dying_(dying), world_(ranks_, seed) {
    world_.settle();
    world_.hold_dials();
    for (int step = between(1, 200); step > 0; --step) do_something();
    for (int rank = 0; rank < ranks_; ++rank) exit_if_left(rank);
    world_.release_dials();
    world_.settle();
    world_.release_dials();  // what the ring needed since
    world_.settle();
    for (int rank = 0; rank < ranks_; ++rank) read(rank);
  }
  void expect_the_dead_are_known_and_letters_came_in_order() {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!world_.alive(rank)) continue;
      EXPECT_EQ(world_.deaths(rank).size(), died_.size()) << rank << " of " << ranks_;
      for (const int dead : died_) EXPECT_TRUE(world_.deaths(rank).contains(dead));
      for (int other = 0; other < ranks_; ++other) {
        if (other == rank || !stays(rank) || !stays(other)) continue;
        const std::vector<int> &came = came_[{rank, other}];
        std::vector<int> all(to_size(posted_[{rank, other}]));
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(came, all) << rank << " to " << other << " of " << ranks_;
      }
    }
    for (const auto &[pair, came] : came_)
      EXPECT_TRUE(std::ranges::is_sorted(came, std::less_equal<>())) << pair.first << " to " << pair.second;
  }

 private:
  static std::size_t to_size(int n) { return static_cast<std::size_t>(n); }
  int between(int low, int high) { return std::uniform_int_distribution<>(low, high)(random_); }
  bool stays(int rank) { return world_.alive(rank) && !world_.machine(rank).leaving(); }
  void do_something() {
    const int rank = between(0, ranks_ - 1), what = between(0, 99);
    world_.some_deliveries(between(0, 5));
    if (what < 25) world_.release_one_dial();
    if (!world_.alive(rank)) return;
    if (what < 60) {
      const int to = (rank + between(1, ranks_ - 1)) % ranks_;
      if (posted_[{rank, to}] - static_cast<int>(came_[{rank, to}].size()) < static_cast<int>(kMostLetters))
        world_.post(rank, to, std::to_string(posted_[{rank, to}]++));
    } else if (what < 95) {
      read(rank);
      exit_if_left(rank);
    } else if (dying_) {
      if (died_.size() + 1 < to_size(ranks_)) world_.kill(rank), died_.push_back(rank);
    } else {
      world_.machine(rank).leave();
      world_.perform(rank);
    }
  }
  void exit_if_left(int rank) {
    if (world_.alive(rank) && world_.machine(rank).left()) world_.kill(rank);
  }
  void read(int rank) {
    if (!world_.alive(rank)) return;
    for (const std::string &text : world_.take(rank))
      came_[{std::stoi(text), rank}].push_back(std::stoi(text.substr(text.find(' '))));
  }

  std::mt19937 random_;
  int ranks_;
  bool dying_;
  World world_;
  std::vector<int> died_;
  std::map<std::pair<int, int>, int> posted_;
  std::map<std::pair<int, int>, std::vector<int>> came_;
};

TEST(LettersInTurmoil, ComeOnceInOrderAndWhollyBetweenThoseWhoStayAndDeathsAreStillKnown) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Turmoil(seed, seed % 2 == 0).expect_the_dead_are_known_and_letters_came_in_order();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tutti::control

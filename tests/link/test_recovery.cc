// SPDX-License-Identifier: BSD-3-Clause
//
// Two ends of a broken link, with letters that get lost, come late and twice, attempts that fail, and breaks at any
// moment: they always meet in one epoch, or both know that they do not.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "link/recovery.h"
#include "support/random.h"

namespace tutti::link {
namespace {

using Phase = Recovery::Phase;
using Action = Recovery::Action;

constexpr std::int64_t kMs = 1'000'000, kSecond = 1000 * kMs;

enum class Word { offer, ready, refusal };
struct Mail {
  Word word;
  std::uint16_t epoch;
  std::uint32_t queue_pair;  // of an offer
};

// One end, with queue pairs that are numbers.
struct End {
  Recovery recovery;
  std::uint32_t queue_pair = 1;
  std::uint32_t offered = 0;    // by the other end, newest
  std::uint32_t connected = 1;  // the other end's queue pair
  std::uint32_t resumed = 0;
  bool gave_up = false;
  std::vector<Mail> out;

  void hear(const Mail &mail, std::int64_t now) {
    if (mail.word == Word::ready) recovery.ready(mail.epoch);
    if (mail.word == Word::refusal) recovery.refused();
    if (mail.word == Word::offer && recovery.offered(mail.epoch, now) == Recovery::Hearing::taken)
      offered = mail.queue_pair;
  }
  // Attempts fail where `fails` says so.
  template <class Fails>
  void act(std::int64_t now, Fails fails) {
    recovery.emptied(now);
    for (Action action = recovery.next(now); action != Action::none; action = recovery.next(now)) switch (action) {
        case Action::rebuild:
          queue_pair += 2;
          connected = 0;
          if (fails()) recovery.failed_to(now);
          else recovery.rebuilt(now);
          break;
        case Action::offer: out.push_back({Word::offer, recovery.epoch(), queue_pair}); break;
        case Action::join:
          connected = offered;
          if (fails()) recovery.failed_to(now);
          else recovery.joined(now);
          break;
        case Action::ready: out.push_back({Word::ready, recovery.epoch(), 0}); break;
        case Action::refuse: out.push_back({Word::refusal, 0, 0}); break;
        case Action::resume: ++resumed; break;
        case Action::give_up: gave_up = true; break;
        case Action::none: break;
      }
  }
};

const auto never = [] { return false; };

struct Pair {
  End a, b;
  std::int64_t now = kSecond;
  explicit Pair(std::int64_t give_up_ns = 60 * kSecond) {
    a.recovery = Recovery({.give_up_ns = give_up_ns, .deferral_ns = 5 * kSecond, .seed = 1}, 1);
    b.recovery = Recovery({.give_up_ns = give_up_ns, .deferral_ns = 5 * kSecond, .seed = 2}, 1);
    b.queue_pair = 2;
    a.connected = 2;
  }
  // Every letter arrives at once.
  void run(std::int64_t for_ns) {
    for (const std::int64_t until = now + for_ns; now < until; now += kMs) {
      a.act(now, never);
      b.act(now, never);
      for (const Mail &mail : std::exchange(a.out, {})) b.hear(mail, now);
      for (const Mail &mail : std::exchange(b.out, {})) a.hear(mail, now);
    }
  }
  bool joined() const {
    return a.recovery.phase() == Phase::up && b.recovery.phase() == Phase::up &&
           a.recovery.epoch() == b.recovery.epoch() && a.connected == b.queue_pair && b.connected == a.queue_pair;
  }
};

TEST(Recovery, OneEndBreaksAndBothAreConnectedAnew) {
  Pair pair;
  pair.a.recovery.broke(pair.now);
  pair.run(200 * kMs);
  EXPECT_TRUE(pair.joined());
  EXPECT_EQ(pair.a.recovery.epoch(), 2);
  EXPECT_EQ(pair.a.resumed, 1u);
  EXPECT_EQ(pair.b.resumed, 1u);
}

TEST(Recovery, BothBreakAtOnce) {
  Pair pair;
  pair.a.recovery.broke(pair.now);
  pair.b.recovery.broke(pair.now);
  pair.run(200 * kMs);
  EXPECT_TRUE(pair.joined());
  EXPECT_EQ(pair.b.recovery.epoch(), 2);
}

// What a device discards with a queue pair are receive buffers, too.
TEST(Recovery, TheOldQueuePairStaysUntilItsCompletionsWereTaken) {
  Recovery recovery({.give_up_ns = 60 * kSecond, .seed = 1}, 1);
  std::int64_t now = kSecond;
  recovery.broke(now);
  recovery.emptied(now);  // too early: it may have more to tell
  now += 300 * kMs;       // in which nobody polled
  EXPECT_EQ(recovery.next(now), Action::none);
  recovery.emptied(now);
  EXPECT_EQ(recovery.next(now), Action::rebuild);
}

TEST(Recovery, ACompletionQueueThatIsNeverEmptyDoesNotHoldItUp) {
  Recovery recovery({.give_up_ns = 60 * kSecond, .seed = 1}, 1);
  recovery.broke(kSecond);
  EXPECT_EQ(recovery.next(kSecond + 900 * kMs), Action::none);
  EXPECT_EQ(recovery.next(kSecond + 1000 * kMs), Action::rebuild);
}

TEST(Recovery, NeitherEndSendsBeforeTheOtherIsConnected) {
  Pair pair;
  pair.a.recovery.broke(pair.now);
  // What says that an end is connected gets lost.
  for (const std::int64_t until = pair.now + 2 * kSecond; pair.now < until; pair.now += kMs) {
    pair.a.act(pair.now, never);
    pair.b.act(pair.now, never);
    for (const Mail &mail : std::exchange(pair.a.out, {}))
      if (mail.word != Word::ready) pair.b.hear(mail, pair.now);
    for (const Mail &mail : std::exchange(pair.b.out, {}))
      if (mail.word != Word::ready) pair.a.hear(mail, pair.now);
  }
  EXPECT_EQ(pair.a.recovery.phase(), Phase::joined);
  EXPECT_EQ(pair.a.resumed, 0u);
  pair.run(kSecond);  // offers are repeated, and answered again
  EXPECT_TRUE(pair.joined());
}

TEST(Recovery, ADeadLineEndsItAndTheOtherEndIsTold) {
  Pair pair(3 * kSecond);
  pair.a.recovery.broke(pair.now);
  for (const std::int64_t until = pair.now + 4 * kSecond; pair.now < until; pair.now += kMs) {
    pair.a.act(pair.now, [] { return true; });
    pair.b.act(pair.now, never);
    for (const Mail &mail : std::exchange(pair.a.out, {})) pair.b.hear(mail, pair.now);
  }
  EXPECT_TRUE(pair.a.gave_up);
  EXPECT_TRUE(pair.b.gave_up);
  EXPECT_EQ(pair.a.recovery.phase(), Phase::failed);
}

TEST(Recovery, AttemptsAreFewWhileTheyFail) {
  Pair pair(3600 * kSecond);
  pair.a.recovery.broke(pair.now);
  std::uint32_t attempts = 0;
  for (const std::int64_t until = pair.now + 60 * kSecond; pair.now < until; pair.now += kMs)
    pair.a.act(pair.now, [&] { return ++attempts, true; });
  EXPECT_GE(attempts, 30u);
  EXPECT_LE(attempts, 80u);
}

TEST(Recovery, TheClockStandsWhileTheOtherEndDefers) {
  Pair pair(3 * kSecond);
  pair.a.recovery.broke(pair.now);
  for (const std::int64_t until = pair.now + 300 * kSecond; pair.now < until; pair.now += kMs) {
    pair.a.act(pair.now, never);
    if (pair.now % (7 * kSecond) == 2 * kSecond)
      pair.a.recovery.deferred(pair.now);  // in time: 5 s hold, 3 s to give up
  }
  EXPECT_EQ(pair.a.recovery.phase(), Phase::offered);
  pair.run(kSecond);
  EXPECT_TRUE(pair.joined());
}

TEST(Recovery, TheClockOfTheFirstBreakGoesOnUntilSomethingGetsThrough) {
  Pair pair(3 * kSecond);
  for (int i = 0; i < 100 && !pair.a.gave_up; ++i) {
    pair.a.recovery.broke(pair.now);
    pair.run(200 * kMs);
  }
  EXPECT_TRUE(pair.a.gave_up);
  Pair other(3 * kSecond);
  for (int i = 0; i < 100; ++i) {
    other.a.recovery.broke(other.now);
    other.run(200 * kMs);
    other.a.recovery.got_through();
    other.b.recovery.got_through();
  }
  EXPECT_FALSE(other.a.gave_up);
  EXPECT_TRUE(other.joined());
}

// Letters are lost, delayed, doubled and out of order; ends break at any moment and attempts fail. Once that stops,
// they meet. On the way, no end is ever connected to a queue pair of another epoch than its own.
TEST(Recovery, EndsMeetWhateverHappensOnTheWay) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    test::Random random(seed);
    Pair pair(3600 * kSecond);
    struct Flight {
      std::int64_t at;
      bool to_a;
      Mail mail;
    };
    std::deque<Flight> flights;
    const std::int64_t calm = pair.now + 2 * kSecond;
    const std::int64_t end = calm + 30 * kSecond;
    const auto trouble = [&] { return pair.now < calm && random.one_in(4); };
    const auto send = [&](End &from, bool to_a) {
      for (const Mail &mail : std::exchange(from.out, {})) {
        if (pair.now < calm && random.one_in(4)) continue;
        for (int copies = pair.now < calm && random.one_in(8) ? 2 : 1; copies > 0; --copies)
          flights.push_back({pair.now + static_cast<std::int64_t>(random.below(50)) * kMs, to_a, mail});
      }
    };
    pair.a.recovery.broke(pair.now);
    while (pair.now < end && !(pair.now > calm && flights.empty() && pair.joined())) {
      pair.now += 2 * kMs;
      if (pair.now < calm && random.one_in(150)) pair.a.recovery.broke(pair.now);
      if (pair.now < calm && random.one_in(150)) pair.b.recovery.broke(pair.now);
      pair.a.act(pair.now, trouble);
      pair.b.act(pair.now, trouble);
      send(pair.a, false);
      send(pair.b, true);
      for (std::size_t i = flights.size(); i-- > 0;)
        if (flights[i].at <= pair.now) {
          (flights[i].to_a ? pair.a : pair.b).hear(flights[i].mail, pair.now);
          flights.erase(flights.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    ASSERT_TRUE(pair.joined()) << "seed " << seed << ": epochs " << pair.a.recovery.epoch() << " and "
                               << pair.b.recovery.epoch() << ", phases " << static_cast<int>(pair.a.recovery.phase())
                               << " and " << static_cast<int>(pair.b.recovery.phase());
  }
}

}  // namespace
}  // namespace tutti::link

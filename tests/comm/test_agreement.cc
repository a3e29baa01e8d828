// SPDX-License-Identifier: BSD-3-Clause
//
// Agreements under random histories: messages of a pair in order and otherwise in any, ranks that come at any time and
// die at any time, deaths that each survivor learns of at another time.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "comm/agreement.h"
#include "support/mutate.h"
#include "support/random.h"

namespace tutti::comm {
namespace {

using test::Random;

// All ranks of a communicator, and what is under way between them.
class World {
 public:
  World(int ranks, std::uint64_t seed) : random_(seed) {
    for (int rank = 0; rank < ranks; ++rank) ranks_.push_back({.agreement = std::make_unique<Agreement>(rank, ranks)});
  }

  int ranks() const { return static_cast<int>(ranks_.size()); }
  Agreement &at(int rank) { return *ranks_[static_cast<std::size_t>(rank)].agreement; }
  bool alive(int rank) const { return ranks_[static_cast<std::size_t>(rank)].alive; }
  int living() const { return static_cast<int>(std::ranges::count_if(ranks_, &Place::alive)); }
  // Several at a time may not have been heard by all: what it has sent by then is on its way, or only a part of it.
  void kill(int rank) {
    ranks_[static_cast<std::size_t>(rank)].alive = false;
    for (auto &[pair, queue] : wires_)
      if (pair.first == rank) queue.resize(random_.below(queue.size() + 1));
  }
  void begin(int rank, std::uint32_t number, std::uint8_t purpose = 1) {
    at(rank).begin({.living = {}, .most = number, .least = number, .generation = number, .purposes = purpose});
    collect(rank);
  }
  void die_for(int rank, int dead) {
    at(rank).died(dead);
    // Nothing arrives from it any more.
    wires_.erase({dead, rank});
    collect(rank);
  }

  // One message, or one rank that learns of one death; false: there is nothing left.
  bool step() {
    std::vector<std::pair<int, int>> wires, news;
    for (const auto &[pair, queue] : wires_)
      if (!queue.empty() && alive(pair.second) && !at(pair.second).dead()[static_cast<std::size_t>(pair.first)])
        wires.push_back(pair);
    for (int rank = 0; rank < ranks(); ++rank)
      for (int dead = 0; dead < ranks(); ++dead)
        if (alive(rank) && !alive(dead) && !at(rank).dead()[static_cast<std::size_t>(dead)])
          news.emplace_back(rank, dead);
    const std::size_t choices = wires.size() + news.size();
    if (choices == 0) return false;
    const std::size_t choice = random_.below(choices);
    if (choice >= wires.size()) {
      const auto [rank, dead] = news[choice - wires.size()];
      die_for(rank, dead);
      return true;
    }
    const auto [from, to] = wires[choice];
    auto &queue = wires_[{from, to}];
    const auto message = Agreement::decode(Agreement::encode(queue.front()), ranks());
    queue.pop_front();
    if (!message) ADD_FAILURE() << "what was written cannot be read";
    else at(to).received(from, *message);
    collect(to);
    return true;
  }

 private:
  struct Place {
    std::unique_ptr<Agreement> agreement;
    bool alive = true;
  };
  void collect(int from) {
    for (Agreement::Outgoing &outgoing : at(from).take_messages())
      wires_[{from, outgoing.to}].push_back(std::move(outgoing.message));
  }

  Random random_;
  std::vector<Place> ranks_;
  std::map<std::pair<int, int>, std::deque<Agreement::Message>> wires_;
};

// What was decided by anybody, also by those who died since.
struct Decided {
  std::optional<Ballot> ballot;
  std::string flaw;
  void look(const Agreement &agreement) {
    if (!agreement.decision()) return;
    if (!ballot) ballot = agreement.decision();
    else if (!(*ballot == *agreement.decision())) flaw = "two ranks decided differently";
  }
};

// Agreements by number, until all who live are through with so many.
std::map<int, Decided> run(World &world, Random &random, int deaths, int agreements, std::string &flaw) {
  std::map<int, Decided> decided;
  std::vector<int> begun(static_cast<std::size_t>(world.ranks()));
  for (;;) {
    bool moved = false;
    const auto drawn = static_cast<int>(random.below(static_cast<std::uint64_t>(world.ranks())));
    int &count = begun[static_cast<std::size_t>(drawn)];
    if (world.alive(drawn) && count != agreements && world.at(drawn).complete() && random.one_in(3)) {
      world.begin(drawn, static_cast<std::uint32_t>(10 + drawn));
      ++count;
      moved = true;
    }
    if (deaths > 0 && world.living() > 1 && world.alive(drawn) && random.one_in(12)) {
      world.kill(drawn);
      --deaths;
      moved = true;
    }
    moved |= world.step();
    bool all_begun = true, all_over = true;
    for (int rank = 0; rank < world.ranks(); ++rank) {
      const int number = begun[static_cast<std::size_t>(rank)];
      if (number != 0) decided[number].look(world.at(rank));
      if (number != 0 && !decided[number].flaw.empty()) flaw = decided[number].flaw;
      if (!world.alive(rank)) continue;
      all_begun &= number == agreements;
      all_over &= number == agreements && world.at(rank).complete();
    }
    if (!moved && all_begun && !all_over) flaw = "it hangs";
    if (all_over || !flaw.empty()) return decided;
  }
}

int some_deaths(Random &random, int ranks) { return static_cast<int>(random.below(static_cast<std::uint64_t>(ranks))); }

TEST(Agreement, AllWhoLiveDecideTheSameWhoeverDies) {
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    Random random(seed);
    const int ranks = static_cast<int>(random.between(1, 7));
    World world(ranks, seed);
    std::string flaw;
    const auto decided = run(world, random, some_deaths(random, ranks), 1, flaw);
    ASSERT_EQ(flaw, "") << "seed " << seed;
    const Ballot &ballot = *decided.at(1).ballot;
    for (int rank = 0; rank < ranks; ++rank) {
      if (!world.alive(rank)) continue;
      ASSERT_EQ(*world.at(rank).decision(), ballot) << "seed " << seed << ", rank " << rank;
      ASSERT_TRUE(ballot.living[static_cast<std::size_t>(rank)]) << "seed " << seed << ", rank " << rank;
      ASSERT_GE(ballot.most, 10u + static_cast<unsigned>(rank)) << "seed " << seed;
      ASSERT_LE(ballot.least, 10u + static_cast<unsigned>(rank)) << "seed " << seed;
    }
  }
}

TEST(Agreement, OneMayFollowTheOtherAtOnce) {
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) {
    Random random(seed);
    const int ranks = static_cast<int>(random.between(2, 6));
    World world(ranks, seed);
    std::string flaw;
    const auto decided = run(world, random, some_deaths(random, ranks), 4, flaw);
    ASSERT_EQ(flaw, "") << "seed " << seed;
    ASSERT_EQ(decided.size(), 4u) << "seed " << seed;
  }
}

// The leader dies between any two of its messages, and so does the next.
TEST(Agreement, LeadersMayDieAtEachStep) {
  for (int first = 0; first < 40; ++first)
    for (int second = 0; second < 40; ++second) {
      World world(5, static_cast<std::uint64_t>(first * 100 + second));
      for (int rank = 0; rank < 5; ++rank) world.begin(rank, 1);
      Decided decided;
      const auto look = [&] {
        for (int rank = 0; rank < 5; ++rank) decided.look(world.at(rank));
      };
      for (int step = 0; step < first && world.step(); ++step) look();
      world.kill(0);
      for (int step = 0; step < second && world.step(); ++step) look();
      world.kill(1);
      while (world.step()) look();
      ASSERT_EQ(decided.flaw, "") << first << ", " << second;
      for (int rank = 2; rank < 5; ++rank) ASSERT_TRUE(world.at(rank).complete()) << first << ", " << second;
    }
}

TEST(Agreement, WithoutDeathsItTakesFourMessagesWithTheLeaderAndOneBetweenAllOthers) {
  World world(6, 1);
  for (int rank = 0; rank < 6; ++rank) world.begin(rank, 3);
  int messages = 0;
  while (world.step()) ++messages;
  EXPECT_EQ(messages, 3 * 5 + 6 * 5);
}

TEST(Agreement, WhoDiesBeforeIsLeftOut) {
  World world(4, 1);
  world.kill(2);
  while (world.step()) {
  }
  for (const int rank : {0, 1, 3}) world.begin(rank, static_cast<std::uint32_t>(rank), rank == 3 ? 2 : 1);
  while (world.step()) {
  }
  const Ballot expected = {.living = {true, true, false, true}, .most = 3, .least = 0, .generation = 3, .purposes = 3};
  for (const int rank : {0, 1, 3}) EXPECT_EQ(*world.at(rank).decision(), expected);
}

TEST(Agreement, SaysWhoIsWaitedFor) {
  World world(3, 1);
  world.begin(0, 1);
  world.begin(1, 1);
  while (world.step()) {
  }
  EXPECT_EQ(world.at(0).missing(), std::vector<int>{2});
  EXPECT_EQ(world.at(1).missing(), std::vector<int>{0});
}

TEST(Agreement, WhatIsNoMessageIsRefused) {
  std::vector<std::byte> bytes =
      Agreement::encode({.kind = Agreement::Kind::report, .ballot = {.living = {true, true, false}}});
  EXPECT_TRUE(Agreement::decode(bytes, 3));
  EXPECT_FALSE(Agreement::decode(bytes, 9));
  EXPECT_FALSE(Agreement::decode(std::span(bytes).first(Agreement::kHeadBytes - 1), 3));
  bytes[0] = std::byte{9};
  EXPECT_FALSE(Agreement::decode(bytes, 3));
}

TEST(Agreement, AMessageThatIsAlmostRightIsReadAsItStandsOrRefused) {
  const std::vector<bool> some = {true, false, true, true, true, true, false, true, true};
  Random random(4);
  for (int round = 0; round < 50'000; ++round) {
    const auto kind = static_cast<Agreement::Kind>(1 + random.below(4));
    const std::vector<std::byte> bytes =
        test::mutated(Agreement::encode({.kind = kind, .leader = 2, .number = 7, .ballot = {.living = some}}), random);
    const auto message = Agreement::decode(bytes, 9);
    if (!message) continue;
    EXPECT_LT(message->leader, 9);
    EXPECT_EQ(message->ballot.living.size(), message->kind == Agreement::Kind::take ? 0u : 9u);
    Agreement other(4, 9);
    other.received(static_cast<int>(random.below(4)), *message);
    other.begin({.most = 1});
    other.received(static_cast<int>(random.below(4)), *message);
  }
}

}  // namespace
}  // namespace tutti::comm

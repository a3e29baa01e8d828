// SPDX-License-Identifier: BSD-3-Clause
//
// The control protocol without sockets: machines joined by simulated links under a virtual clock, events in seeded
// order.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "control/address.h"
#include "control/machine.h"
#include "control/neighbours.h"

namespace tutti::control {
namespace {

constexpr std::int64_t kHeartbeat = 2 * kNanosecondsPerSecond, kTimeout = 30 * kNanosecondsPerSecond;

TEST(Neighbours, EveryLinkHasTwoEndsAndOneOfThemConnects) {
  for (int ranks = 1; ranks <= 70; ++ranks) {
    std::map<std::pair<int, int>, bool> links;
    for (int rank = 0; rank < ranks; ++rank)
      for (const Neighbour &neighbour : neighbours(rank, ranks)) {
        ASSERT_NE(neighbour.rank, rank);
        links[{rank, neighbour.rank}] = neighbour.we_connect;
      }
    for (const auto &[ends, connects] : links) {
      const auto other = links.find({ends.second, ends.first});
      ASSERT_NE(other, links.end()) << ranks;
      ASSERT_NE(connects, other->second) << ranks << ": " << ends.first << " and " << ends.second;
    }
  }
}

TEST(Neighbours, TheirNumberGrowsWithTheLogarithm) {
  for (int exponent = 1; exponent <= 12; ++exponent)
    EXPECT_LE(neighbours(0, 1 << exponent).size(), 2u * static_cast<unsigned>(exponent));
}

// A world of machines. Deliveries keep each direction's order; which link goes next is drawn from the seed.
class World {
 public:
  World(int ranks, unsigned seed) : random_(seed) {
    for (int rank = 0; rank < ranks; ++rank)
      machines_.push_back(std::make_unique<Machine>(
          Machine::Setup{.rank = rank, .ranks = ranks, .heartbeat_ns = kHeartbeat, .peer_timeout_ns = kTimeout}, now_));
    deaths_.resize(machines_.size());
    stopped_.resize(machines_.size());
    for (int rank = 0; rank < ranks; ++rank) perform(rank);
  }

  Machine &machine(int rank) { return *machines_[static_cast<std::size_t>(rank)]; }
  bool alive(int rank) const { return machines_[static_cast<std::size_t>(rank)] != nullptr; }
  const std::map<int, std::string> &deaths(int rank) const { return deaths_[static_cast<std::size_t>(rank)]; }

  // What is under way is delivered, what the dead had sent included.
  void settle() {
    while (!pipes_.empty()) {
      auto pipe = pipes_.begin();
      std::advance(pipe, std::uniform_int_distribution<std::size_t>(0, pipes_.size() - 1)(random_));
      deliver_one(pipe->first);
    }
  }
  void some_deliveries(int count) {
    for (; count > 0 && !pipes_.empty(); --count) {
      auto pipe = pipes_.begin();
      std::advance(pipe, std::uniform_int_distribution<std::size_t>(0, pipes_.size() - 1)(random_));
      deliver_one(pipe->first);
    }
  }

  void kill(int rank) {
    machines_[static_cast<std::size_t>(rank)].reset();
    for (auto &[number, link] : links_)
      if (link.ends[0] == rank || link.ends[1] == rank) end(number, link.ends[0] == rank ? 1 : 0);
  }
  void stop(int rank, bool stopped) { stopped_[static_cast<std::size_t>(rank)] = stopped; }
  void pass(std::int64_t duration) {
    for (std::int64_t past = 0; past < duration; past += kHeartbeat) {
      now_ += kHeartbeat;
      settle();
      for (int rank = 0; rank < size(); ++rank)
        if (alive(rank) && !stopped_[static_cast<std::size_t>(rank)]) {
          machine(rank).tick(now_);
          perform(rank);
        }
    }
    settle();
  }
  void perform(int rank) {
    if (!alive(rank)) return;
    std::vector<Action> actions = machine(rank).take_actions();
    for (const Action &action : actions) {
      if (const auto *send = std::get_if<Send>(&action)) push(rank, send->link, *decode(encode(send->message)));
      if (const auto *close = std::get_if<Close>(&action)) drop(rank, close->link);
      if (const auto *dial = std::get_if<Dial>(&action)) connect(rank, dial->rank);
      if (const auto *report = std::get_if<Report>(&action)) {
        EXPECT_TRUE(deaths_[static_cast<std::size_t>(rank)].emplace(report->death.rank, report->death.reason).second)
            << "reported twice";
      }
    }
    if (!actions.empty()) perform(rank);
  }
  int size() const { return static_cast<int>(machines_.size()); }

 private:
  struct Link {
    int ends[2];
    bool open[2] = {true, true};
  };
  struct Item {
    bool ended = false;
    Message message;
  };
  using PipeName = std::pair<int, int>;  // link, receiving end

  void connect(int rank, int peer) {
    if (!alive(peer)) return machine(rank).unreachable(peer, "refused"), perform(rank);
    const int number = next_link_++;
    links_[number] = {{rank, peer}};
    machine(rank).opened(number, peer, now_);
    machine(peer).opened(number, rank, now_);
    perform(peer);
  }
  void push(int rank, int number, const Message &message) {
    const auto found = links_.find(number);
    if (found == links_.end()) return;
    const int to = found->second.ends[0] == rank ? 1 : 0;
    if (found->second.open[to]) pipes_[{number, to}].push_back({.message = message});
  }
  void drop(int rank, int number) {
    const auto found = links_.find(number);
    if (found == links_.end()) return;
    const int mine = found->second.ends[0] == rank ? 0 : 1;
    found->second.open[mine] = false;
    pipes_.erase({number, mine});
    end(number, 1 - mine);
  }
  void end(int number, int end) {
    Link &link = links_[number];
    if (!alive(link.ends[end])) pipes_.erase({number, end});
    else if (link.open[end]) pipes_[{number, end}].push_back({.ended = true});
  }
  void deliver_one(PipeName name) {
    auto &pipe = pipes_[name];
    const Item item = pipe.front();
    pipe.pop_front();
    if (pipe.empty()) pipes_.erase(name);
    const int rank = links_[name.first].ends[name.second];
    if (!alive(rank) || !links_[name.first].open[name.second]) return;
    if (item.ended) {
      links_[name.first].open[name.second] = false;
      machine(rank).closed(name.first, "connection closed");
    } else {
      machine(rank).received(name.first, item.message, now_);
    }
    perform(rank);
  }

  std::mt19937 random_;
  std::int64_t now_ = 1'000'000;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::map<int, std::string>> deaths_;
  std::vector<bool> stopped_;
  std::map<int, Link> links_;
  std::map<PipeName, std::deque<Item>> pipes_;
  int next_link_ = 0;
};

TEST(ControlMachine, AllAreLinkedAndIdleWorldsStayQuiet) {
  for (const int ranks : {1, 2, 3, 5, 16, 33}) {
    World world(ranks, 1);
    world.settle();
    world.pass(100 * kNanosecondsPerSecond);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(world.machine(rank).ready());
      EXPECT_TRUE(world.deaths(rank).empty());
    }
  }
}

TEST(ControlMachine, WhoeverDiesInWhateverOrderEverySurvivorLearnsOfAll) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const int ranks = std::uniform_int_distribution<>(2, 40)(random);
    World world(ranks, seed);
    world.settle();
    std::vector<int> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    order.resize(static_cast<std::size_t>(std::uniform_int_distribution<>(1, ranks - 1)(random)));
    for (const int victim : order) {
      world.kill(victim);
      world.some_deliveries(std::uniform_int_distribution<>(0, 30)(random));
    }
    world.settle();
    for (int rank = 0; rank < ranks; ++rank) {
      if (!world.alive(rank)) continue;
      std::vector<int> known;
      for (const auto &[dead, reason] : world.deaths(rank)) known.push_back(dead);
      std::vector<int> expected = order;
      std::ranges::sort(expected);
      ASSERT_EQ(known, expected) << "seed " << seed << ", rank " << rank << " of " << ranks;
    }
  }
}

TEST(ControlMachine, SilenceBelowTheTimeoutIsNoDeathAndBeyondItIs) {
  World world(6, 3);
  world.settle();
  world.stop(2, true);
  world.pass(20 * kNanosecondsPerSecond);
  for (int rank = 0; rank < 6; ++rank) EXPECT_TRUE(world.deaths(rank).empty());
  world.stop(2, false);
  world.pass(10 * kNanosecondsPerSecond);
  for (int rank = 0; rank < 6; ++rank) EXPECT_TRUE(world.deaths(rank).empty());
  world.stop(2, true);
  world.pass(40 * kNanosecondsPerSecond);
  for (int rank = 0; rank < 6; ++rank) {
    if (rank == 2) continue;
    ASSERT_EQ(world.deaths(rank).size(), 1u) << rank;
    EXPECT_EQ(world.deaths(rank).begin()->first, 2);
    EXPECT_EQ(world.deaths(rank).begin()->second, "it was silent for 30 s");
  }
}

TEST(ControlMachine, AMachineThatWasItselfStoppedBlamesNobody) {
  Machine machine({.rank = 0, .ranks = 2, .heartbeat_ns = kHeartbeat, .peer_timeout_ns = kTimeout}, 0);
  machine.opened(7, 1, 0);
  machine.tick(kHeartbeat);
  machine.tick(100 * kTimeout);  // the whole host slept: the peer could not be heard, and did not run either
  for (const Action &action : machine.take_actions()) EXPECT_FALSE(std::holds_alternative<Report>(action));
}

TEST(ControlMachine, LeavingTakesTheNeighboursAcknowledgementsAndIsNoDeath) {
  World world(5, 4);
  world.settle();
  world.machine(3).leave();
  EXPECT_FALSE(world.machine(3).left());
  world.perform(3);
  world.settle();
  EXPECT_TRUE(world.machine(3).left());
  world.kill(3);
  world.settle();
  world.kill(4);
  world.settle();
  for (const int rank : {0, 1, 2}) {
    ASSERT_EQ(world.deaths(rank).size(), 1u) << rank;
    EXPECT_EQ(world.deaths(rank).begin()->first, 4);
  }
}

TEST(ControlMachine, AnAbortIsADeathOnAllOthers) {
  World world(9, 5);
  world.settle();
  world.machine(4).abort("it left with tutti_abort");
  world.perform(4);
  world.settle();
  for (int rank = 0; rank < 9; ++rank) {
    if (rank == 4) continue;
    ASSERT_EQ(world.deaths(rank).size(), 1u) << rank;
    EXPECT_EQ(world.deaths(rank).at(4), "it left with tutti_abort");
  }
  EXPECT_TRUE(world.deaths(4).empty());
}

TEST(ControlMachine, ANeighbourThatCannotBeReachedWhileRanksComeUpIsADeath) {
  Machine machine({.rank = 0, .ranks = 2, .heartbeat_ns = kHeartbeat, .peer_timeout_ns = kTimeout}, 0);
  machine.take_actions();
  machine.unreachable(1, "refused");
  const std::vector<Action> actions = machine.take_actions();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<Report>(actions[0]).death.reason, "it cannot be reached (refused)");
}

TEST(ControlMessages, OnlyHeartbeatsAreShorterThanWhatWakes) {
  for (const Kind kind : {Kind::intro, Kind::accept, Kind::goodbye, Kind::goodbye_ack, Kind::death})
    EXPECT_GE(encode({.kind = kind}).size() + net::kFrameHeaderBytes, kWakeBytes);
  // Those of many heartbeats together do not wake either.
  EXPECT_LT(5 * (encode({.kind = Kind::heartbeat}).size() + net::kFrameHeaderBytes), kWakeBytes);
  EXPECT_LE(encode({.kind = Kind::death, .reason = std::string(10'000, 'x')}).size(), kFrameLimit);
}

TEST(ControlMessages, RandomBytesAreReadOrRefusedNeverTrusted) {
  std::mt19937 random(7);
  for (int round = 0; round < 100'000; ++round) {
    net::Bytes bytes(std::uniform_int_distribution<std::size_t>(0, 80)(random));
    for (std::byte &b : bytes) b = static_cast<std::byte>(random() % (round % 2 ? 8 : 256));
    if (const auto message = decode(bytes)) {
      EXPECT_LE(message->reason.size(), bytes.size());
    }
  }
}

TEST(ControlAddress, ComesBackAsItWas) {
  const std::vector<net::Endpoint> endpoints = {net::parse_address("10.0.0.3")->with_port(4711),
                                                net::parse_address("fd00::2")->with_port(4711)};
  EXPECT_EQ(decode_address(encode_address(4711, endpoints)), endpoints);
  std::mt19937 random(8);
  for (int round = 0; round < 10'000; ++round) {
    Address address;
    for (std::uint8_t &b : address.bytes) b = static_cast<std::uint8_t>(random() % 10);
    EXPECT_LE(decode_address(address).size(), kMostAddresses);
  }
}

}  // namespace
}  // namespace tutti::control

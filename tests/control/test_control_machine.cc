// SPDX-License-Identifier: BSD-3-Clause
//
// The control protocol without sockets: machines joined by simulated links under a virtual clock, events in seeded
// order.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "control/address.h"
#include "control/neighbours.h"
#include "machine_world.h"

namespace tutti::control {
namespace {

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
  for (const Kind kind :
       {Kind::intro, Kind::accept, Kind::goodbye, Kind::goodbye_ack, Kind::death, Kind::letter, Kind::deferred})
    EXPECT_GE(encode({.kind = kind}).size() + net::kFrameHeaderBytes, kWakeBytes);
  // Those of many heartbeats together do not wake either.
  EXPECT_LT(5 * (encode({.kind = Kind::heartbeat}).size() + net::kFrameHeaderBytes), kWakeBytes);
  EXPECT_LE(encode({.kind = Kind::death, .reason = std::string(10'000, 'x')}).size(), kFrameLimit);
}

TEST(ControlMessages, RandomBytesAreReadOrRefusedNeverTrusted) {
  std::mt19937 random(7);
  for (int round = 0; round < 100'000; ++round) {
    net::Bytes bytes(std::uniform_int_distribution<std::size_t>(0, round % 4 ? 80 : kFrameLimit)(random));
    for (std::byte &b : bytes) b = static_cast<std::byte>(random() % (round % 2 ? 8 : 256));
    if (const auto message = decode(bytes)) {
      EXPECT_LE(message->reason.size(), bytes.size());
      EXPECT_LE(message->body.size(), std::min(bytes.size(), kLetterBytes));
      EXPECT_EQ(message->kind == Kind::letter, !message->body.empty());
    }
  }
}

TEST(ControlMessages, LettersOfEverySizeComeBackAndNoOthersAreRead) {
  const auto encoded = [](std::size_t size) {
    Message message{.kind = Kind::letter, .from = 3, .to = 5, .body = net::Bytes(size)};
    for (std::size_t i = 0; i < size; ++i) message.body[i] = static_cast<std::byte>(i * 7 + 1);
    return encode(message);
  };
  for (std::size_t size = 1; size <= kLetterBytes; ++size) {
    const net::Bytes bytes = encoded(size);
    const auto message = decode(bytes);
    ASSERT_TRUE(message) << size;
    EXPECT_EQ(message->from, 3);
    EXPECT_EQ(message->to, 5);
    ASSERT_EQ(message->body.size(), size);
    EXPECT_EQ(message->body.back(), static_cast<std::byte>((size - 1) * 7 + 1));
    EXPECT_LE(bytes.size(), kFrameLimit);
    EXPECT_FALSE(decode(std::span(bytes).first(12 + size)));  // cut short by its last byte
  }
  EXPECT_FALSE(decode(encoded(0)));  // would mean that the other end has deferred
  EXPECT_FALSE(decode(encoded(kLetterBytes + 1)));
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

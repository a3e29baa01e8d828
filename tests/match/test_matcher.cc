// SPDX-License-Identifier: BSD-3-Clause
//
// Point-to-point messages between ranks in one thread, each step of which the test chooses.
#include <gtest/gtest.h>

#include <deque>

#include "match/world.h"

namespace tutti::match {
namespace {

class Match : public World {
 protected:
  std::vector<std::size_t> sizes() {
    const std::size_t eager = side(0).mesh.eager_bytes(), chunk = 64 * 1024;
    return {0, 1, 8, 57, eager - 1, eager, eager + 1, 9000, chunk - 1, chunk, chunk + 1, 5'000'003};
  }
};

TEST_F(Match, DeliversEverySizeWhicheverOfTheTwoComesFirst) {
  start(2);
  for (const bool receive_first : {true, false}) {
    for (const Mode mode : {Mode::standard, Mode::synchronous}) {
      for (const std::size_t bytes : sizes()) {
        Sending s(bytes, bytes, 1, 3, mode);
        Receiving r(bytes, 0, 3);
        if (receive_first) matcher(1).receive(r.operation);
        matcher(0).send(s.operation);
        settle();
        if (!receive_first) {
          EXPECT_EQ(s.operation.done, mode == Mode::standard && bytes <= side(0).mesh.eager_bytes()) << bytes;
          EXPECT_FALSE(r.operation.done);
          matcher(1).receive(r.operation);
          settle();
        }
        ASSERT_TRUE(s.operation.done && r.operation.done) << bytes;
        EXPECT_FALSE(s.operation.error || r.operation.status.error);
        EXPECT_TRUE(r.holds(s.data)) << bytes;
        EXPECT_EQ(r.operation.status.source, 0);
        EXPECT_EQ(r.operation.status.tag, 3);
        EXPECT_EQ(r.operation.status.bytes, bytes);
        EXPECT_TRUE(matcher(0).idle() && matcher(1).idle() && !matcher(0).due() && !matcher(1).due());
      }
    }
  }
  EXPECT_EQ(matcher(1).pool().out(), 0u);
}

TEST_F(Match, SelfSendsNeedNoMesh) {
  start(2);
  const std::uint64_t sent = side(0).mesh.statistics().messages_sent;
  for (const bool receive_first : {true, false}) {
    for (const Mode mode : {Mode::standard, Mode::synchronous}) {
      for (const std::size_t bytes : sizes()) {
        Sending s(bytes, bytes, 0, 9, mode);
        Receiving r(bytes, kAnySource, kAnyTag);
        if (receive_first) matcher(0).receive(r.operation);
        matcher(0).send(s.operation);
        if (!receive_first) {
          EXPECT_EQ(s.operation.done, mode == Mode::standard && bytes <= side(0).mesh.eager_bytes()) << bytes;
          const std::optional<Status> probed = matcher(0).probe(0, 9);
          ASSERT_TRUE(probed);
          EXPECT_EQ(probed->bytes, bytes);
          matcher(0).receive(r.operation);
        }
        ASSERT_TRUE(s.operation.done && r.operation.done) << bytes;
        EXPECT_TRUE(r.holds(s.data)) << bytes;
        EXPECT_EQ(r.operation.status.source, 0);
      }
    }
  }
  EXPECT_EQ(side(0).mesh.statistics().messages_sent, sent);
  EXPECT_EQ(matcher(0).pool().out(), 0u);
}

TEST_F(Match, AMessageThatDoesNotFitIsAnErrorAndWritesNothingBeyondTheBuffer) {
  start(2);
  for (const int to : {1, 0}) {
    for (const bool receive_first : {true, false}) {
      for (const std::size_t bytes : sizes()) {
        if (bytes == 0) continue;
        for (const std::size_t room : {std::size_t{0}, bytes / 2, bytes - 1}) {
          Sending s(bytes, bytes, to, 1);
          Receiving r(room, 0, 1);
          if (receive_first) matcher(to).receive(r.operation);
          matcher(0).send(s.operation);
          settle();
          if (!receive_first) matcher(to).receive(r.operation);
          settle();
          ASSERT_TRUE(s.operation.done && r.operation.done) << bytes << " into " << room;
          EXPECT_FALSE(s.operation.error) << "the sender has done nothing wrong";
          ASSERT_TRUE(r.operation.status.error);
          EXPECT_EQ(r.operation.status.error->code, Code::truncated);
          EXPECT_EQ(r.operation.status.bytes, bytes);
          EXPECT_TRUE(r.holds(s.data)) << bytes << " into " << room;
          EXPECT_FALSE(matcher(to).probe(kAnySource, kAnyTag)) << "the message is consumed";
        }
      }
    }
  }
}

TEST_F(Match, SynchronousSendsEndOnlyWhenTheirReceiveHasBegun) {
  start(2);
  Sending s(1, 4, 1, 1, Mode::synchronous), empty(2, 0, 1, 2, Mode::synchronous);
  Receiving other(4, 0, 7), r(4, 0, 1), none(0, 0, 2);
  matcher(0).send(s.operation);
  matcher(0).send(empty.operation);
  matcher(1).receive(other.operation);
  settle();
  EXPECT_FALSE(s.operation.done || empty.operation.done || other.operation.done);
  matcher(1).receive(none.operation);
  settle();
  EXPECT_TRUE(empty.operation.done && none.operation.done) << "not in order of sending where tags differ";
  EXPECT_FALSE(s.operation.done);
  matcher(1).receive(r.operation);
  settle();
  EXPECT_TRUE(s.operation.done && r.holds(s.data));
  EXPECT_TRUE(matcher(1).withdraw(other.operation));
}

TEST_F(Match, MessagesOfOneSourceDoNotOvertakeEachOtherWhateverTheirSize) {
  start(2);
  std::deque<Sending> sends;
  for (int i = 0; i < 60; ++i) {
    const std::size_t bytes = i % 3 == 0 ? 100'000 : i % 3 == 1 ? 10 : 4000;
    matcher(0).send(
        sends
            .emplace_back(i, bytes + static_cast<std::size_t>(i), 1, 4, i % 7 == 0 ? Mode::synchronous : Mode::standard)
            .operation);
    // Credits come back while others still wait for them.
    if (i % 5 == 0) side(1).progress();
  }
  std::deque<Receiving> receives;
  for (int i = 0; i < 60; ++i) {
    if (i == 30) settle();
    matcher(1).receive(receives.emplace_back(200'000, i % 2 == 0 ? 0 : kAnySource, i % 5 == 0 ? kAnyTag : 4).operation);
  }
  settle();
  for (std::size_t i = 0; i < 60; ++i) {
    ASSERT_TRUE(receives[i].operation.done) << i;
    EXPECT_TRUE(receives[i].holds(sends[i].data)) << i;
  }
}

TEST_F(Match, ASendIsDoneOnceItsBytesAreOutAndItsMemoryMayChange) {
  start(2);
  for (const std::size_t bytes : {std::size_t{5000}, std::size_t{20'000}, std::size_t{300'000}}) {
    Sending s(1, bytes, 1, 1);
    const std::vector<std::byte> sent = s.data;
    Receiving r(bytes, 0, 1);
    matcher(1).receive(r.operation);
    matcher(0).send(s.operation);
    side(1).progress();
    for (int i = 0; i < 10'000 && !s.operation.done; ++i) side(0).progress();
    ASSERT_TRUE(s.operation.done) << "all of it fits into the chunks";
    std::fill(s.data.begin(), s.data.end(), std::byte{0});
    settle();
    EXPECT_TRUE(r.holds(sent));
  }
}

TEST_F(Match, HowMuchWaitsAtTheReceiverIsASetting) {
  std::size_t kept[2] = {};
  for (const auto &[text, out] : {std::pair{"4K", &kept[0]}, std::pair{"64K", &kept[1]}}) {
    ranks_.clear();
    sides_.clear();
    const Result<Config> config = read_config({{"TUTTI_P2P_WINDOW", text}}, nullptr);
    ASSERT_TRUE(config);
    start(2, {.window_bytes = static_cast<std::uint64_t>(config->p2p_window_bytes), .most_requests = 1});
    std::deque<Sending> sends;
    for (int i = 0; i < 500; ++i) matcher(0).send(sends.emplace_back(i, 1000, 1, i).operation);
    settle();
    *out = matcher(1).pool().out();
    matcher(0).fail({Code::aborted, "enough"});
  }
  EXPECT_GT(kept[1], 8 * kept[0]);
}

TEST_F(Match, AReceiveFromAnySourceTakesWhatCameFirstAndSaysFromWhom) {
  start(3);
  Sending first(1, 100, 0, 6), second(2, 200, 0, 5), third(3, 300, 0, 6);
  matcher(2).send(first.operation);
  settle();
  matcher(1).send(second.operation);
  settle();
  matcher(1).send(third.operation);
  settle();
  EXPECT_EQ(matcher(0).probe(kAnySource, kAnyTag)->source, 2);
  EXPECT_EQ(matcher(0).probe(kAnySource, 5)->source, 1);
  EXPECT_EQ(matcher(0).probe(1, kAnyTag)->tag, 5);
  EXPECT_FALSE(matcher(0).probe(2, 5));
  Receiving a(1000, kAnySource, kAnyTag), b(1000, 1, 6), c(1000, kAnySource, 5);
  for (Receiving *r : {&a, &b, &c}) matcher(0).receive(r->operation);
  EXPECT_TRUE(a.holds(first.data) && b.holds(third.data) && c.holds(second.data));
  EXPECT_EQ(c.operation.status.source, 1);
  EXPECT_EQ(c.operation.status.tag, 5);
}

TEST_F(Match, RanksAreThoseOfTheGroup) {
  // Ranks 0, 1, 2 of the group are 3, 0, 2 of the world.
  start(4, {}, nullptr, {3, 0, 2});
  Sending small(1, 10, 0, 1), large(2, 100'000, 2, 1);
  Receiving a(10, kAnySource, 1), b(100'000, 0, 1);
  matcher(0).receive(a.operation);
  matcher(2).receive(b.operation);
  matcher(1).send(small.operation);
  matcher(0).send(large.operation);
  settle();
  EXPECT_TRUE(a.operation.done && a.holds(small.data));
  EXPECT_EQ(a.operation.status.source, 1);
  EXPECT_TRUE(b.operation.done && b.holds(large.data));
  EXPECT_EQ(b.operation.status.source, 0);
}

TEST_F(Match, AFloodThatNobodyReceivesWaitsAtItsSenderAndMemoryIsBounded) {
  constexpr std::uint64_t kWindow = 16 * 1024;
  constexpr std::uint32_t kRequests = 20;
  start(2, {.window_bytes = kWindow, .most_requests = kRequests});
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{8}, std::size_t{700}, std::size_t{4096}, std::size_t{50'000}}) {
    std::deque<Sending> sends;
    for (int i = 0; i < 500; ++i) matcher(0).send(sends.emplace_back(i, bytes, 1, i).operation);
    settle();
    // A window, the message that ends beyond it, the requests; at most doubled by rounding up.
    const std::size_t most = 2 * (kWindow + side(0).mesh.eager_bytes() + (kRequests + 1) * Matcher::kMessageBytes);
    EXPECT_LE(matcher(1).pool().out(), most) << bytes;
    const auto done =
        static_cast<std::uint64_t>(std::ranges::count_if(sends, [](const Sending &s) { return s.operation.done; }));
    EXPECT_LE((done - (done > 0)) * (bytes + Matcher::kMessageBytes), kWindow) << bytes;
    if (bytes <= side(0).mesh.eager_bytes()) {
      // Half of it may be news that has not been told.
      EXPECT_GT((done + 1) * (bytes + Matcher::kMessageBytes), kWindow / 2) << "the window is used";
    } else {
      EXPECT_EQ(done, 0u);
    }
    EXPECT_FALSE(matcher(0).due()) << "what waits for receives is not tried again and again";
    std::deque<Receiving> receives;
    for (int i = 0; i < 500; ++i) {
      matcher(1).receive(receives.emplace_back(bytes, 0, i).operation);
      if (i % 10 == 0) settle();
    }
    settle();
    for (std::size_t i = 0; i < 500; ++i)
      ASSERT_TRUE(sends[i].operation.done && receives[i].operation.done && receives[i].holds(sends[i].data)) << i;
    EXPECT_EQ(matcher(1).pool().out(), 0u);
  }
}

TEST_F(Match, ReceivesInAnyOrderOfTagsFindWhatWaitsAtItsSender) {
  start(2, {.window_bytes = 4096});
  constexpr int kMessages = 1000;
  std::deque<Sending> sends;
  for (int i = 0; i < kMessages; ++i) matcher(0).send(sends.emplace_back(i, i % 10 == 0 ? 10'000 : 50, 1, i).operation);
  settle();
  std::deque<Receiving> receives;
  for (int i = kMessages - 1; i >= 0; --i) {
    matcher(1).receive(receives.emplace_back(10'000, 0, i).operation);
    settle();
    ASSERT_TRUE(receives.back().operation.done) << "tag " << i << " waits for others";
    ASSERT_TRUE(receives.back().holds(sends[static_cast<std::size_t>(i)].data));
  }
}

TEST_F(Match, AReceiveThatIsTakenBackMatchesNothing) {
  start(2);
  Receiving early(8, 0, 1), late(8, 0, 1);
  matcher(1).receive(early.operation);
  EXPECT_FALSE(matcher(1).idle());
  EXPECT_TRUE(matcher(1).withdraw(early.operation));
  EXPECT_TRUE(matcher(1).idle());
  Sending s(1, 8, 1, 1);
  matcher(0).send(s.operation);
  settle();
  matcher(1).receive(late.operation);
  EXPECT_TRUE(late.operation.done && late.holds(s.data));
  EXPECT_FALSE(early.operation.done);
  EXPECT_FALSE(matcher(1).withdraw(late.operation)) << "it is done";
}

TEST_F(Match, AFailureEndsEveryOperationWhereverItStands) {
  start(2, {.window_bytes = 4096, .most_requests = 4});
  std::deque<Sending> sends;
  std::deque<Receiving> receives;
  for (int i = 0; i < 50; ++i) {
    matcher(0).send(sends.emplace_back(i, i < 30 ? 100 : 3'000'000, 1, i).operation);
    matcher(0).send(sends.emplace_back(i, 100'000, 0, i).operation);
    matcher(0).receive(receives.emplace_back(10, i % 2 == 0 ? kAnySource : 1, 1000 + i).operation);
  }
  // Some are answered and under way, some requested, some wait.
  std::deque<Receiving> there;
  for (int i = 0; i < 32; ++i) matcher(1).receive(there.emplace_back(3'000'000, 0, i).operation);
  for (int i = 0; i < 20; ++i) {
    side(1).progress();
    side(0).progress();
  }
  const Error error = {Code::peer, "rank 1 is gone", 1};
  matcher(0).fail(error);
  EXPECT_TRUE(matcher(0).idle());
  EXPECT_FALSE(matcher(0).due());
  EXPECT_EQ(matcher(0).pool().out(), 0u);
  std::size_t failed = 0;
  for (const Sending &s : sends) {
    ASSERT_TRUE(s.operation.done);
    failed += s.operation.error.has_value();
  }
  EXPECT_GT(failed, 60u);
  for (const Receiving &r : receives) {
    ASSERT_TRUE(r.operation.done && r.operation.status.error);
    EXPECT_EQ(r.operation.status.error->text, error.text);
  }
  // And what comes after it, at once.
  Sending later(1, 8, 1, 1);
  Receiving never(8, kAnySource, kAnyTag);
  matcher(0).send(later.operation);
  matcher(0).receive(never.operation);
  EXPECT_TRUE(later.operation.done && later.operation.error);
  EXPECT_TRUE(never.operation.done && never.operation.status.error);
  settle();
  matcher(1).fail(error);
  EXPECT_EQ(matcher(1).pool().out(), 0u);
}

TEST_F(Match, WhatCameBeforeTheMatcherWasThereIsTakenFromItsKeeper) {
  start(2);
  Sending s(1, 100, 1, 1);
  matcher(0).send(s.operation);
  mesh::Record record;
  for (int polls = 0; polls < 1000 && side(1).mesh.poll({&record, 1}) == 0; ++polls) {
  }
  ASSERT_EQ(record.bytes, 100u);
  std::vector<std::byte> kept(record.payload, record.payload + record.bytes);
  side(1).mesh.release(record);
  record.payload = kept.data();
  matcher(1).catch_up(record);
  kept.clear();
  Receiving r(100, 0, 1);
  matcher(1).receive(r.operation);
  EXPECT_TRUE(r.operation.done && r.holds(s.data));
}

// What a peer must not send, each with the words that say so.
class Malformed : public Match {
 protected:
  void SetUp() override { start(3, {.window_bytes = 4096, .most_requests = 2}, nullptr, {0, 1}); }
  void send(link::Kind kind, std::uint32_t call, std::uint32_t signature, std::size_t bytes, std::uint64_t value = 0,
            int from = 0) {
    std::vector<std::byte> payload(bytes);
    std::memcpy(payload.data(), &value, std::min(bytes, sizeof(value)));
    mesh::Mesh &mesh = ranks_[static_cast<std::size_t>(from)]->engine().mesh();
    const mesh::Stream stream = {.communicator = kCommunicator, .call = call, .signature = signature};
    for (int attempts = 0; attempts < 1000; ++attempts) {
      if (kind == link::Kind::bulk      ? mesh.send_bulk(1, stream, payload)
          : kind == link::Kind::matched ? mesh.send_control(1, stream, kind, payload)
                                        : mesh.send_message(1, stream, kind, payload))
        return;
      side(1).progress();
    }
    FAIL() << "no credit";
  }
  void expect_refused(const std::string &words) {
    for (int i = 0; i < 10; ++i) side(1).progress();
    const std::vector<mesh::Breakage> breakages = side(1).mesh.take_breakages();
    ASSERT_EQ(breakages.size(), 1u);
    EXPECT_NE(breakages[0].text.find(words), std::string::npos) << breakages[0].text;
    EXPECT_NE(breakages[0].text.find("does not follow the protocol"), std::string::npos) << breakages[0].text;
  }
  void expect_accepted() {
    for (int i = 0; i < 10; ++i) side(1).progress();
    EXPECT_TRUE(side(1).mesh.take_breakages().empty());
  }
};

TEST_F(Malformed, ANegativeTag) {
  send(link::Kind::message, 0xffff'ffff, kGeneration, 8);
  expect_refused("negative tag");
}
TEST_F(Malformed, ARequestOfNoSize) {
  send(link::Kind::request, 1, 0, 4);
  expect_refused("no size");
}
TEST_F(Malformed, AnAnswerToNothing) {
  send(link::Kind::ready, 17, 0, 8, 1);
  expect_refused("not made");
}
TEST_F(Malformed, AnAnswerThatAsksForMore) {
  Sending s(1, 10'000, 0, 1);
  matcher(1).send(s.operation);
  send(link::Kind::ready, 0, 0, 8, 10'001);
  expect_refused("more than was offered");
  EXPECT_FALSE(s.operation.done);
}
TEST_F(Malformed, PiecesThatNobodyAskedFor) {
  send(link::Kind::bulk, 3, 0, 100);
  expect_refused("no receive has asked");
}
TEST_F(Malformed, MoreThanWasAskedFor) {
  Receiving r(1000, 0, 1);
  matcher(1).receive(r.operation);
  send(link::Kind::request, 1, 0, 8, 1000);
  expect_accepted();
  send(link::Kind::bulk, 0, 0, 600);
  expect_accepted();
  send(link::Kind::bulk, 0, 0, 401);
  expect_refused("no receive has asked");
  EXPECT_FALSE(r.operation.done);
  EXPECT_TRUE(r.holds(std::vector<std::byte>(600))) << "nothing of it is written";
}
TEST_F(Malformed, NewsOfMoreThanWasSent) {
  send(link::Kind::matched, 0, kGeneration, 8, 1);
  expect_refused("more messages than were sent");
}
TEST_F(Malformed, MessagesBeyondTheWindow) {
  for (int i = 0; i < 12; ++i) send(link::Kind::message, 1, kGeneration, 200);  // 11 of 392 fit, the last one partly
  expect_refused("exceeds its window");
}
TEST_F(Malformed, MoreRequestsThanAllowed) {
  for (int i = 0; i < 2; ++i) send(link::Kind::request, 1, 0, 8, 10);
  expect_accepted();
  send(link::Kind::request, 1, 0, 8, 10);
  expect_refused("more requests");
}
TEST_F(Malformed, NotWhatAnEarlierCommunicatorOfTheNumberLeftBehind) {
  Receiving r(8, 0, 1);
  matcher(1).receive(r.operation);
  send(link::Kind::message, 1, kGeneration - 1, 8);
  send(link::Kind::matched, 0, kGeneration - 1, 8, 1'000'000);
  expect_accepted();
  EXPECT_FALSE(r.operation.done) << "it is dropped";
}
TEST_F(Malformed, ARankOutsideOfTheGroup) {
  send(link::Kind::message, 1, kGeneration, 8, 0, 2);
  expect_refused("not in the communicator");
}

}  // namespace
}  // namespace tutti::match

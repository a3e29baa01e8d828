// SPDX-License-Identifier: BSD-3-Clause
//
// The keyed hello and the session around it, without sockets: who knows the key gets in, nobody else hears a word.
#include "net/hello.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "net/session.h"

namespace tutti::net {
namespace {

const Key kKey = derive_key("the job's secret", "test");
const Key kOtherKey = derive_key("another secret", "test");

Nonce nonce_of(unsigned char fill) {
  Nonce nonce;
  nonce.fill(fill);
  return nonce;
}

Hello connector(const Key &key = kKey, std::uint32_t version = kProtocolVersion) {
  return Hello(Hello::Role::connector, key, nonce_of(1), version);
}
Hello acceptor(const Key &key = kKey, std::uint32_t version = kProtocolVersion) {
  return Hello(Hello::Role::acceptor, key, nonce_of(2), version);
}

// Everything both have to say, until both are silent.
void converse(Hello &a, Hello &b) {
  for (;;) {
    const Bytes from_a = a.take_output(), from_b = b.take_output();
    if (from_a.empty() && from_b.empty()) return;
    b.feed(from_a);
    a.feed(from_b);
  }
}

TEST(Hello, TwoEndsThatKnowTheKeyProveItToEachOther) {
  Hello a = connector(), b = acceptor();
  converse(a, b);
  EXPECT_EQ(a.state(), Hello::State::done);
  EXPECT_EQ(b.state(), Hello::State::done);
}

TEST(Hello, ComesThroughByteByByteAndLeavesWhatFollows) {
  Hello a = connector(), b = acceptor();
  for (const std::byte byte : a.take_output()) b.feed(std::span(&byte, 1));
  for (const std::byte byte : b.take_output()) a.feed(std::span(&byte, 1));
  Bytes confirmation = a.take_output();
  const std::size_t hello_bytes = confirmation.size();
  confirmation.push_back(std::byte{42});
  EXPECT_EQ(b.feed(confirmation), hello_bytes);
  EXPECT_EQ(b.state(), Hello::State::done);
}

TEST(Hello, AnAcceptorSaysNothingToWhoHasAnotherKey) {
  Hello a = connector(kOtherKey), b = acceptor();
  b.feed(a.take_output());
  EXPECT_EQ(b.state(), Hello::State::stranger);
  EXPECT_TRUE(b.take_output().empty());
}

TEST(Hello, AConnectorConfirmsNothingToWhoHasAnotherKey) {
  Hello a = connector(), b = connector(kOtherKey);
  a.take_output();
  a.feed(b.take_output());
  EXPECT_EQ(a.state(), Hello::State::stranger);
  EXPECT_TRUE(a.take_output().empty());
}

TEST(Hello, AReplayedConnectorDoesNotGetIn) {
  Hello a = connector(), b = acceptor();
  const Bytes greeting = a.take_output();
  b.feed(greeting);
  a.feed(b.take_output());
  const Bytes confirmation = a.take_output();
  b.feed(confirmation);
  ASSERT_EQ(b.state(), Hello::State::done);
  Hello later(Hello::Role::acceptor, kKey, nonce_of(3));
  later.feed(greeting);
  later.feed(confirmation);
  EXPECT_EQ(later.state(), Hello::State::stranger);
}

TEST(Hello, AReflectedGreetingProvesNothing) {
  Hello a = connector();
  a.feed(a.take_output());
  EXPECT_EQ(a.state(), Hello::State::stranger);
}

TEST(Hello, AnotherVersionIsToldApartFromAStrangerOnBothEnds) {
  Hello a = connector(kKey, 1), b = acceptor(kKey, 2);
  converse(a, b);
  EXPECT_EQ(a.state(), Hello::State::other_version);
  EXPECT_EQ(a.peer_version(), 2u);
  EXPECT_EQ(b.state(), Hello::State::other_version);
  EXPECT_EQ(b.peer_version(), 1u);
}

TEST(Hello, KeysOfDifferentUseOrSecretDiffer) {
  EXPECT_NE(derive_key("secret", "control"), derive_key("secret", "meet 1"));
  EXPECT_NE(derive_key("secret", "control"), derive_key("secre", "tcontrol"));
  EXPECT_NE(draw_job_key(), draw_job_key());
  EXPECT_EQ(draw_job_key().size(), 32u);
}

TEST(Hello, EveryChangedByteOfEitherMessageIsNoticed) {
  Hello a = connector(), b = acceptor();
  const Bytes greeting = a.take_output();
  b.feed(greeting);
  const Bytes answer = b.take_output();
  for (std::size_t i = 0; i < greeting.size(); ++i) {
    Bytes changed = greeting;
    changed[i] ^= std::byte{1};
    Hello fresh(Hello::Role::acceptor, kKey, nonce_of(2));
    fresh.feed(changed);
    EXPECT_EQ(fresh.state(), Hello::State::stranger) << i;
    EXPECT_TRUE(fresh.take_output().empty()) << i;
  }
  for (std::size_t i = 0; i < answer.size(); ++i) {
    Bytes changed = answer;
    changed[i] ^= std::byte{0x80};
    Hello fresh = connector();
    fresh.take_output();
    fresh.feed(changed);
    EXPECT_EQ(fresh.state(), Hello::State::stranger) << i;
  }
}

TEST(Hello, TruncationsAreNeverDone) {
  const Bytes greeting = connector().take_output();
  for (std::size_t size = 0; size < greeting.size(); ++size) {
    Hello b = acceptor();
    b.feed(std::span(greeting).first(size));
    EXPECT_EQ(b.state(), Hello::State::underway) << size;
    EXPECT_TRUE(b.take_output().empty()) << size;
  }
}

TEST(Session, RandomBytesNeverOpenItWhateverTheirPieces) {
  std::mt19937 random(11);
  const Bytes greeting = connector().take_output();
  for (int round = 0; round < 20'000; ++round) {
    Session session(round % 2 ? Hello::Role::acceptor : Hello::Role::connector, kKey, nonce_of(2), 0, 1000);
    // Half of the inputs start like a hello, so that its inner states are reached.
    Bytes input;
    if (round % 4 < 2) input.assign(greeting.begin(), greeting.begin() + static_cast<int>(random() % greeting.size()));
    while (input.size() < 200) input.push_back(static_cast<std::byte>(random()));
    std::span<const std::byte> left = input;
    while (!left.empty()) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % 50, left.size());
      session.receive(left.first(piece), 0);
      left = left.subspan(piece);
    }
    ASSERT_EQ(session.state(), Session::State::stranger);
    ASSERT_FALSE(session.next_message());
  }
}

void exchange(Session &a, Session &b, std::int64_t now) {
  while (!a.output().empty() || !b.output().empty()) {
    const Bytes from_a(a.output().begin(), a.output().end()), from_b(b.output().begin(), b.output().end());
    a.sent(from_a.size());
    b.sent(from_b.size());
    b.receive(from_a, now);
    a.receive(from_b, now);
  }
}

struct Pair {
  Session a{Hello::Role::connector, kKey, nonce_of(1), 0, 100};
  Session b{Hello::Role::acceptor, kKey, nonce_of(2), 0, 100};
};

const Bytes kMessage = {std::byte{1}, std::byte{2}, std::byte{3}};

TEST(Session, MessagesWaitForTheHelloAndThenArriveInOrder) {
  Pair pair;
  pair.a.send(kMessage);
  pair.b.send({});
  pair.b.send(kMessage);
  exchange(pair.a, pair.b, 0);
  EXPECT_EQ(pair.b.next_message(), kMessage);
  EXPECT_EQ(pair.a.next_message(), Bytes());
  EXPECT_EQ(pair.a.next_message(), kMessage);
  EXPECT_EQ(pair.a.next_message(), std::nullopt);
}

TEST(Session, NoMessageLeavesBeforeTheOtherEndHasProvedTheKey) {
  Session b(Hello::Role::acceptor, kKey, nonce_of(2), 0, 100);
  b.send(kMessage);
  EXPECT_TRUE(b.output().empty());
  const Bytes greeting = connector().take_output();
  b.receive(greeting, 0);
  EXPECT_EQ(b.output().size(), greeting.size());  // its own greeting, and nothing behind it
}

TEST(Session, SilenceUntilTheDeadlineEndsItAndAnAnswerInTimeDoesNot) {
  Pair pair;
  pair.a.tick(kHelloNanoseconds - 1);
  EXPECT_EQ(pair.a.state(), Session::State::hello);
  exchange(pair.a, pair.b, kHelloNanoseconds - 1);
  EXPECT_EQ(pair.a.state(), Session::State::open);
  pair.a.tick(kHelloNanoseconds * 100);
  EXPECT_EQ(pair.a.state(), Session::State::open);
  Pair silent;
  silent.a.tick(kHelloNanoseconds);
  EXPECT_EQ(silent.a.state(), Session::State::silent);
}

TEST(Session, AMessageAboveTheLimitEndsIt) {
  Pair pair;
  exchange(pair.a, pair.b, 0);
  pair.a.send(Bytes(101));
  exchange(pair.a, pair.b, 0);
  EXPECT_EQ(pair.b.state(), Session::State::bad_frame);
}

TEST(Session, RandomBytesAfterTheHelloAreMessagesOrTheEnd) {
  std::mt19937 random(12);
  for (int round = 0; round < 5'000; ++round) {
    Pair pair;
    exchange(pair.a, pair.b, 0);
    Bytes input(300);
    for (std::byte &b : input) b = static_cast<std::byte>(random() % (round % 2 ? 3 : 256));
    pair.b.receive(input, 0);
    while (const auto message = pair.b.next_message()) ASSERT_LE(message->size(), 100u);
  }
}

}  // namespace
}  // namespace tutti::net

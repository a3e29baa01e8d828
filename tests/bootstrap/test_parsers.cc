// SPDX-License-Identifier: BSD-3-Clause
//
// What comes over sockets, changed a little: it is read as it stands, or refused; nothing is trusted, and nothing
// breaks. (Bytes at random: tests/net and tests/control.)
#include <gtest/gtest.h>

#include <cstring>

#include "bootstrap/tcp_messages.h"
#include "control/messages.h"
#include "net/session.h"
#include "support/mutate.h"

namespace tutti::test {
namespace {

net::Bytes text(const char *value) {
  const auto *bytes = reinterpret_cast<const std::byte *>(value);
  return {bytes, bytes + std::strlen(value)};
}

net::Bytes encode_any(const bootstrap::Message &message) {
  struct Encoder {
    net::Bytes operator()(const bootstrap::Data &data) const { return bootstrap::encode_data(data.bytes); }
    net::Bytes operator()(const bootstrap::Outcome &outcome) const { return bootstrap::encode_outcome(outcome.bytes); }
    net::Bytes operator()(const bootstrap::Join &join) const { return bootstrap::encode(join); }
    net::Bytes operator()(const bootstrap::Welcome &welcome) const { return bootstrap::encode(welcome); }
    net::Bytes operator()(const Error &error) const { return bootstrap::encode(error); }
  };
  return std::visit(Encoder(), message);
}

TEST(Parsers, MeetingMessagesAreReadAsTheyStandOrRefused) {
  const std::vector<net::Bytes> valid = {
      bootstrap::encode(bootstrap::Join{3, 8}), bootstrap::encode(bootstrap::Welcome{"10.0.0.1"}),
      bootstrap::encode(Error{.code = Code::config, .text = "ranks differ", .peer = 2}),
      bootstrap::encode_data(text("some bytes")), bootstrap::encode_outcome(text("all bytes of all ranks"))};
  Random random(1);
  int read = 0, refused = 0;
  for (int round = 0; round < 200'000; ++round) {
    const net::Bytes bytes = mutated(valid[random.below(valid.size())], random);
    if (const auto message = bootstrap::decode(bytes)) {
      ++read;
      EXPECT_EQ(encode_any(*message), bytes) << "round " << round;
    } else {
      ++refused;
    }
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Parsers, ControlMessagesAreReadAsTheyStandOrRefused) {
  using control::Kind;
  std::vector<net::Bytes> valid;
  for (const Kind kind : {Kind::intro, Kind::accept, Kind::heartbeat, Kind::goodbye, Kind::goodbye_ack, Kind::deferred})
    valid.push_back(control::encode({.kind = kind, .from = 3, .to = 4}));
  valid.push_back(control::encode({.kind = Kind::death, .rank = 5, .reason = "its process ended"}));
  valid.push_back(control::encode({.kind = Kind::letter, .from = 1, .to = 2, .body = text("a letter of some length")}));
  Random random(2);
  int read = 0, refused = 0;
  for (int round = 0; round < 200'000; ++round) {
    const net::Bytes bytes = mutated(valid[random.below(valid.size())], random);
    const auto message = control::decode(bytes);
    ++(message ? read : refused);
    if (!message) continue;
    EXPECT_LE(message->reason.size() + message->body.size(), bytes.size());
    EXPECT_EQ(message->kind == Kind::letter, !message->body.empty());
    const auto again = control::decode(control::encode(*message));
    ASSERT_TRUE(again) << "round " << round;
    EXPECT_EQ(again->body, message->body);
    EXPECT_EQ(std::tie(again->from, again->to, again->rank), std::tie(message->from, message->to, message->rank));
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

// A whole connection of a member of the job, changed on its way: the other end hands out what was said, or less.
TEST(Parsers, AConnectionThatIsTamperedWithSaysNothingElse) {
  const net::Key key = net::derive_key("secret", "control");
  Random random(3);
  const net::Bytes said = text("what a member says");
  int whole = 0, opened = 0;
  for (int round = 0; round < 20'000; ++round) {
    net::Session member(net::Hello::Role::connector, key, net::random_nonce(), 0, 64);
    net::Session other(net::Hello::Role::acceptor, key, net::random_nonce(), 0, 64);
    member.send(said);
    // One of the pieces that travel in this direction: the greeting, or the confirmation with the message.
    const std::uint64_t changed = random.below(3);
    for (std::uint64_t piece = 0; piece < 3; ++piece) {
      net::Bytes out(member.output().begin(), member.output().end());
      member.sent(out.size());
      const net::Bytes arrives = piece == changed ? mutated(out, random) : out;
      other.receive(arrives, 0);
      if (!other.vouched()) {
        EXPECT_TRUE(other.output().empty()) << "it answers a stranger";
      }
      member.receive(other.output(), 0);
      other.sent(other.output().size());
    }
    opened += other.state() == net::Session::State::open;
    while (const auto message = other.next_message()) {
      // The hello is proved; what follows it is framed, not signed: TCP is trusted to bring it as it was.
      EXPECT_LE(message->size(), 64u);
      whole += *message == said;
    }
  }
  EXPECT_GT(opened, 1000);
  EXPECT_GT(whole, 1000);
}

}  // namespace
}  // namespace tutti::test

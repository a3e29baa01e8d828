// SPDX-License-Identifier: BSD-3-Clause
//
// The keyed hello with which every connection starts: both ends prove that they know the job's key. Pure: bytes in,
// bytes out.
//
//   connector -> acceptor   magic 8, version 4, nonce 32, MAC("connect", version, nonce)
//   acceptor -> connector   magic 8, version 4, nonce 32, MAC("accept", version, both nonces)
//   connector -> acceptor   MAC("confirm", both nonces)
//
// Invariants: an acceptor says nothing before the other end has shown a MAC of the key; a replayed first message gets
// no further than the second, since the acceptor's nonce is fresh; the first two messages keep their layout in every
// version, so that ranks of different versions can say so instead of taking each other for strangers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "net/frame.h"

namespace tutti::net {

inline constexpr std::uint32_t kProtocolVersion = 1;

using Key = std::array<unsigned char, 32>;
using Nonce = std::array<unsigned char, 32>;

// A key for one use ("control", "meet 29500"), from the job's secret text: sockets of different use never take each
// other for the same.
Key derive_key(std::string_view secret, std::string_view use);
Nonce random_nonce();
// A new job key: 32 hexadecimal digits, 128 random bits.
std::string draw_job_key();

class Hello {
 public:
  enum class Role { connector, acceptor };
  enum class State { underway, done, stranger, other_version };

  Hello(Role role, const Key &key, const Nonce &nonce, std::uint32_t version = kProtocolVersion);

  // Takes bytes of the stream, and says how many belonged to the hello; the rest is the caller's once the state is
  // done.
  std::size_t feed(std::span<const std::byte> bytes);
  // What is to be sent since the last call.
  Bytes take_output();
  State state() const { return state_; }
  // The other end has shown a MAC of the key: no stranger, unless it replays what another end said.
  bool vouched() const { return greeted_; }
  std::uint32_t peer_version() const { return peer_version_; }

 private:
  void greet(const char *label, std::span<const unsigned char> bound);
  void receive_greeting();
  void receive_confirmation();
  std::size_t expected_bytes() const;

  Role role_;
  Key key_;
  Nonce mine_;
  Nonce theirs_{};
  std::uint32_t version_;
  std::uint32_t peer_version_ = 0;
  State state_ = State::underway;
  bool greeted_ = false;  // the acceptor has taken the greeting and waits for the confirmation
  Bytes input_;
  Bytes output_;
};

}  // namespace tutti::net

// SPDX-License-Identifier: BSD-3-Clause
//
// One connection as a state machine: first the keyed hello, then messages. (bytes, now) -> bytes to send, messages, and
// a state; no socket, no clock. Invariants: no message is handed out before the other end has proved the key, and none
// of ours leaves before; whoever has not proved it by the hello's deadline is a stranger.
#pragma once

#include <cstdint>
#include <span>

#include "net/frame.h"
#include "net/hello.h"

namespace tutti::net {

// A rank on a loaded host answers within seconds; a stranger holds a place for no longer than this.
inline constexpr std::int64_t kHelloNanoseconds = 10'000'000'000;

class Session {
 public:
  enum class State { hello, open, stranger, other_version, silent, bad_frame };

  Session(Hello::Role role, const Key &key, const Nonce &nonce, std::int64_t now, std::size_t frame_limit)
      : hello_(role, key, nonce), reader_(frame_limit), hello_until_(now + kHelloNanoseconds) {
    collect();  // the connector's greeting
  }

  void receive(std::span<const std::byte> bytes, std::int64_t now);
  void tick(std::int64_t now);
  // Queues a message; it leaves once the hello is done.
  void send(std::span<const std::byte> payload);
  std::optional<Bytes> next_message();

  // Bytes that may leave now, and that the first n of them have left.
  std::span<const std::byte> output() const;
  void sent(std::size_t bytes);

  State state() const { return state_; }
  bool failed() const { return state_ != State::hello && state_ != State::open; }
  bool vouched() const { return hello_.vouched(); }
  std::int64_t hello_until() const { return hello_until_; }
  std::uint32_t peer_version() const { return hello_.peer_version(); }

 private:
  void collect();

  Hello hello_;
  FrameReader reader_;
  std::int64_t hello_until_;
  State state_ = State::hello;
  Bytes output_;   // may leave now
  Bytes waiting_;  // messages queued during the hello
  std::size_t sent_ = 0;
};

}  // namespace tutti::net

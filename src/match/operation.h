// SPDX-License-Identifier: BSD-3-Clause
//
// One send or one receive. The object is its caller's: it stays where it is, with its buffer, from the start until
// `done`; then it may be started again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "match/keyed_queues.h"

namespace tutti::match {

inline constexpr std::int32_t kAnySource = -1, kAnyTag = -1;

enum class Mode : std::uint8_t {
  standard,     // done when the buffer may be used again
  synchronous,  // and not before the matching receive has begun
};

// How a receive ended, or what a probe found. Ranks are those of the communicator.
struct Status {
  std::int32_t source = kAnySource;
  std::int32_t tag = kAnyTag;
  std::size_t bytes = 0;       // of the message, also where less was written
  std::optional<Error> error;  // truncated: the buffer holds as much of the message as fits
};

struct SendOperation {
  // The caller's.
  const void *data = nullptr;
  std::size_t bytes = 0;
  std::int32_t peer = 0;
  std::int32_t tag = 0;  // >= 0
  Mode mode = Mode::standard;
  // The matcher's answer.
  bool done = false;
  std::optional<Error> error;
  // The matcher's own: a send is in one queue at a time, or in the table of requests.
  SendOperation *next = nullptr;
  std::uint64_t wanted = 0, sent = 0, piece = 0;  // bytes that the receiver takes, that are out, and go at a time
  std::uint32_t receiver = 0;                     // the receiver's number
};

struct ReceiveOperation {
  // The caller's.
  void *buffer = nullptr;
  std::size_t bytes = 0;
  std::int32_t source = kAnySource;
  std::int32_t tag = kAnyTag;
  // The matcher's answer.
  bool done = false;
  Status status;
  // The matcher's own: a receive is posted, or waits to answer a request, or is in the table of those who have.
  Hook<ReceiveOperation> hook;
  ReceiveOperation *next = nullptr;
  std::uint64_t number = 0;                // in the order of posting
  std::uint64_t wanted = 0, received = 0;  // bytes of an answered request
  std::uint32_t request = 0;               // the sender's number
  bool posted = false;
};

}  // namespace tutti::match

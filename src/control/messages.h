// SPDX-License-Identifier: BSD-3-Clause
//
// What ranks say on control connections after the keyed hello; pure encoding.
//
// Only heartbeats are shorter than kWakeBytes: the receiver's low-water mark lets them collect in the socket until its
// own next heartbeat is due, so that an idle rank wakes up once a heartbeat, however many neighbours it has. All else
// is padded to that size, and wakes at once.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "control/control.h"
#include "net/frame.h"

namespace tutti::control {

inline constexpr std::size_t kWakeBytes = 64;
inline constexpr std::size_t kMostReasonBytes = 300;  // one line; what is longer is cut
inline constexpr std::size_t kFrameLimit = 512;

enum class Kind : std::uint8_t {
  intro = 1,        // from, to: the connecting rank's first message
  accept = 2,       // from, to: the answer
  heartbeat = 3,    //
  goodbye = 4,      // the sender leaves on purpose
  goodbye_ack = 5,  // ... and may close now: the sender of this will not take it for dead
  death = 6,        // rank, reason: flooded
  letter = 7,       // from, to, body
  deferred = 8,     // from, to: letters from `to` wait at `from`, whose program has not looked
};

struct Message {
  Kind kind = Kind::heartbeat;
  int from = -1;
  int to = -1;
  int rank = -1;
  std::string reason;
  net::Bytes body;  // of a letter: 1 to kLetterBytes
};

net::Bytes encode(const Message &message);
// Nothing if it is no message of ours.
std::optional<Message> decode(std::span<const std::byte> payload);

}  // namespace tutti::control

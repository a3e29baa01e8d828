// SPDX-License-Identifier: BSD-3-Clause
//
// The 32 bytes in front of every message, fixed and versioned (docs/PROTOCOL.md). Little-endian; both ends of a link
// run the same version, which start-up checks. All counts are cumulative, never increments: losing or repeating one
// does no harm.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace tutti::link {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

inline constexpr std::uint8_t kVersion = 1;

// Receive buffers are granted by class, so that bulk traffic cannot starve the small messages that keep it going.
enum class Class : std::uint8_t { collective, point_to_point, control };
inline constexpr int kClasses = 3;

enum class Kind : std::uint8_t {
  data,     // collective: a piece of the stream's bytes
  window,   // control: payload = u64, what the receiver has consumed of the communicator's data (exec/windows.h)
  failure,  // control: the sender's call failed; payload = FailureNotice
};

inline constexpr std::uint8_t kAcknowledgeNow = 1;  // flag: the sender waits for this message's acknowledgement

struct Header {
  std::uint8_t version_and_kind;  // kVersion << 4 | kind
  std::uint8_t flags;
  std::uint16_t epoch;              // of the connection; a message of an earlier one is dropped
  std::uint32_t sequence;           // position among all messages of this link and direction
  std::uint32_t received;           // messages of the other direction received in order so far: acknowledges them
  std::uint16_t granted[kClasses];  // receive buffers granted so far, by class
  std::uint16_t granted_chunks;     // staging chunks granted so far
  std::uint16_t communicator;
  std::uint16_t reserved;   // zero
  std::uint32_t call;       // with the communicator: the stream
  std::uint32_t signature;  // of the call, equal on all ranks that make the same one

  Kind kind() const { return static_cast<Kind>(version_and_kind & 0xf); }
  std::uint8_t version() const { return version_and_kind >> 4; }
};
static_assert(sizeof(Header) == 32 && std::is_trivially_copyable_v<Header>);

// What a receiver writes into its peer's memory when no message is about to carry it: the header's counts, as two
// words, each of which is written by one 8-byte store and true by itself. The upper half of both is `received`, which
// tells how fresh the word is.
struct Grants {
  std::uint64_t bulk;   // received << 32 | granted_chunks << 16 | granted[collective]
  std::uint64_t small;  // received << 32 | granted[point_to_point] << 16 | granted[control]
};
static_assert(sizeof(Grants) == 16);

}  // namespace tutti::link

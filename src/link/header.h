// SPDX-License-Identifier: BSD-3-Clause
//
// The 24 bytes in front of every message, fixed and versioned (docs/PROTOCOL.md). Little-endian; both ends of a link
// run the same version, which start-up checks. All counts are cumulative, never increments: losing or repeating one
// does no harm.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace tutti::link {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

inline constexpr std::uint8_t kVersion = 2;

// Receive buffers are granted by class, so that bulk traffic cannot starve the small messages that keep it going.
enum class Class : std::uint8_t { collective, point_to_point, control };
inline constexpr int kClasses = 3;

enum class Kind : std::uint8_t {
  data,     // a piece of the stream's bytes
  window,   // payload = u64, what the receiver has consumed of the communicator's data (exec/windows.h)
  failure,  // the sender's call failed; payload = FailureNotice
  // Point-to-point (match/matcher.h); what the two words of the stream mean is said as call, signature.
  message,  // tag, the communicator's generation; payload = the message
  request,  // tag, the sender's number; payload = u64, bytes of a message that waits at its sender
  ready,    // the sender's number, the receiver's; payload = u64, how many of those bytes the receiver takes
  bulk,     // the receiver's number, 0; payload = the next piece of the message
  matched,  // 0, the communicator's generation; payload = u64, what has been received of the messages of kind message,
            // as windows count it
};
inline constexpr Kind kLastKind = Kind::matched;
constexpr bool is_point_to_point(Kind kind) { return kind >= Kind::message; }

// The class whose credits a message of that kind takes: a table of two bits a kind, since every arrival asks.
constexpr Class class_of(Kind kind) {
  constexpr auto entry = [](Kind of, Class c) { return static_cast<std::uint32_t>(c) << 2 * static_cast<int>(of); };
  constexpr std::uint32_t table = entry(Kind::data, Class::collective) | entry(Kind::window, Class::control) |
                                  entry(Kind::failure, Class::control) | entry(Kind::message, Class::point_to_point) |
                                  entry(Kind::request, Class::point_to_point) |
                                  entry(Kind::ready, Class::point_to_point) | entry(Kind::bulk, Class::collective) |
                                  entry(Kind::matched, Class::control);
  return static_cast<Class>(table >> 2 * static_cast<int>(kind) & 3);
}

// Flag: the payload lies in a chunk, where its sender has stored it, and the message has a Placed instead.
inline constexpr std::uint8_t kPlaced = 1;
struct Placed {
  std::uint32_t chunk;  // count of the chunk
  std::uint32_t bytes;  // of payload
};

// Three words, each written by one store: what copies the message right after that finds whole words on their way to
// memory, and with the software device's own word a message of 32 bytes fills one cache line.
struct Header {
  std::uint64_t identity;  // kind 0-3 | version 4-7 | flags 8-15 | epoch 16-31 | communicator 32-47 | sequence 48-63
  std::uint64_t counts;  // received 0-15 | granted collective 16-31, chunks 32-47, point-to-point 48-55, control 56-63
  std::uint64_t stream;  // call 0-31 | signature 32-63

  Kind kind() const { return static_cast<Kind>(identity & 0xf); }
  std::uint8_t version() const { return identity >> 4 & 0xf; }
  std::uint8_t flags() const { return static_cast<std::uint8_t>(identity >> 8); }
  // Of the connection; a message of an earlier one is dropped.
  std::uint16_t epoch() const { return static_cast<std::uint16_t>(identity >> 16); }
  void give_to(std::uint16_t communicator) {
    identity = (identity & ~(std::uint64_t{0xffff} << 32)) | std::uint64_t{communicator} << 32;
  }
  std::uint16_t communicator() const { return static_cast<std::uint16_t>(identity >> 32); }
  // Position among all messages of this link and direction, modulo 2^16: far more than are ever unacknowledged.
  std::uint16_t sequence() const { return static_cast<std::uint16_t>(identity >> 48); }
  // Messages of the other direction received in order so far: acknowledges them.
  std::uint16_t received() const { return static_cast<std::uint16_t>(counts); }
  std::uint16_t granted_collective() const { return static_cast<std::uint16_t>(counts >> 16); }
  std::uint16_t granted_chunks() const { return static_cast<std::uint16_t>(counts >> 32); }
  std::uint8_t granted_point_to_point() const { return static_cast<std::uint8_t>(counts >> 48); }
  std::uint8_t granted_control() const { return static_cast<std::uint8_t>(counts >> 56); }
  // With the communicator: the stream.
  std::uint32_t call() const { return static_cast<std::uint32_t>(stream); }
  // Of the call, equal on all ranks that make the same one.
  std::uint32_t signature() const { return static_cast<std::uint32_t>(stream >> 32); }
};
static_assert(sizeof(Header) == 24 && std::is_trivially_copyable_v<Header>);

// What a receiver writes into its peer's memory when no message is about to carry it: the header's counts, as two
// words, each of which is written by one 8-byte store and true by itself. The upper half of both is `received`, which
// tells how fresh the word is.
struct Grants {
  std::uint64_t bulk;   // received << 32 | granted_chunks << 16 | granted[collective]
  std::uint64_t small;  // received << 32 | granted[point_to_point] << 16 | granted[control]
};
static_assert(sizeof(Grants) == 16);

}  // namespace tutti::link

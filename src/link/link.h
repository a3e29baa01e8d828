// SPDX-License-Identifier: BSD-3-Clause
//
// The protocol state of a link: sequences, acknowledgements and credits of both directions. Verbs-free and
// non-blocking; the mesh asks it before it posts, tells it what arrived, and carries its counts.
//
// Invariants
// - A message is sent only against a credit of its class (and a chunk against a chunk credit): the receiver has posted
//   a buffer for every credit, so a shared receive queue never runs dry in a correct program.
// - What the peer has not acknowledged is retained: sequences [acknowledged, next) stay in their slots, no more than
//   there are `slots`.
// - Counts are 16 or 32 bits, cumulative, compared by difference: they may wrap.
#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"
#include "link/header.h"

namespace tutti::link {

// Equal on all ranks (a function of the number of ranks and of configuration that start-up has compared).
struct Limits {
  std::array<std::uint16_t, kClasses> credits{};  // receive buffers granted to each peer at the start
  std::uint16_t chunks = 0;                       // staging chunks granted to each peer at the start
  std::uint32_t slots = 0;  // unacknowledged messages at most; a power of two >= all credits together
};

// What the limits of a mesh follow from.
struct LimitInputs {
  int ranks = 1;
  std::int64_t credits_setting = 0;  // TUTTI_CREDITS; 0: by table
  std::int64_t chunk_bytes = 0;
  std::int64_t message_bytes = 0;         // largest message into the receive queue, with its header
  std::int64_t srq_capacity = INT64_MAX;  // buffers that a shared receive queue holds
  // What a device takes in at a post whatever the receiver does. A message that is only queued would wait for the next
  // call of its sender, who may be away for long.
  std::int64_t wire_bytes = INT64_MAX;
  std::int64_t wire_packets = INT64_MAX;
  std::int64_t packet_bytes = INT64_MAX;
};

// The largest message (with its header) of which the least credits all fit on the wire.
std::int64_t largest_message(const LimitInputs &inputs);
// Credits by table or setting, reduced to what queue and wire hold; staging bytes are bounded in all.
Limits limits_for(const LimitInputs &inputs);

enum class Arrival : std::uint8_t {
  deliver,    // the next message in order
  duplicate,  // seen before (a replay): drop, its buffer goes back
  stale,      // of an earlier connection: drop
  broken,     // a gap or another version: the link is unusable
};

class Link {
 public:
  Link() = default;
  // Both directions begin at first_sequence, on both ends alike.
  explicit Link(const Limits &limits, std::uint16_t epoch, std::uint32_t first_sequence = 0);

  // Sending. can_send() first; stamp() takes the credit and fills the link's part of the header.
  bool can_send(Class message_class) const {
    const int c = static_cast<int>(message_class);
    return allowed_[c] != sent_[c] && next_sequence_ - acknowledged_ < slots_;
  }
  bool can_send_chunk() const { return chunks_allowed_ != chunks_sent_ && can_send(Class::collective); }
  std::uint32_t next_sequence() const { return next_sequence_; }
  std::uint16_t next_chunk() const { return chunks_sent_; }
  void stamp(Header &header, Class message_class, Kind kind) {
    TUTTI_DCHECK(can_send(message_class));
    ++sent_[static_cast<int>(message_class)];
    header.version_and_kind = static_cast<std::uint8_t>(kVersion << 4 | static_cast<std::uint8_t>(kind));
    header.epoch = epoch_;
    header.sequence = next_sequence_++;
    header.received = received_;
    for (int c = 0; c < kClasses; ++c) header.granted[c] = told_[c] = granted_[c];
    header.granted_chunks = told_chunks_ = chunks_granted_;
    header.reserved = 0;
    acknowledge_now_ = false;
  }
  void take_chunk() { ++chunks_sent_; }
  // Whether everything up to and including that sequence is acknowledged.
  bool acknowledged(std::uint32_t sequence) const { return static_cast<std::int32_t>(acknowledged_ - sequence) > 0; }
  std::uint32_t retained() const { return next_sequence_ - acknowledged_; }

  // Receiving.
  Arrival accept(const Header &header) {
    if (header.epoch != epoch_) [[unlikely]]
      return static_cast<std::int16_t>(header.epoch - epoch_) < 0 ? Arrival::stale : Arrival::broken;
    if (header.sequence != received_ || header.version() != kVersion) [[unlikely]]
      return header.version() == kVersion && static_cast<std::int32_t>(header.sequence - received_) < 0
                 ? Arrival::duplicate
                 : Arrival::broken;
    ++received_;
    if (header.flags & kAcknowledgeNow) acknowledge_now_ = true;
    if (static_cast<std::int32_t>(header.received - acknowledged_) >= 0) acknowledged_ = header.received;
    for (int c = 0; c < kClasses; ++c) advance(allowed_[c], header.granted[c]);
    advance(chunks_allowed_, header.granted_chunks);
    return Arrival::deliver;
  }
  void learn(const Grants &grants) {
    // A word written before what messages have carried since is old: its 16-bit counts may seem to lie ahead.
    const auto bulk_received = static_cast<std::uint32_t>(grants.bulk >> 32);
    if (static_cast<std::int32_t>(bulk_received - acknowledged_) >= 0) {
      acknowledged_ = bulk_received;
      advance(allowed_[0], static_cast<std::uint16_t>(grants.bulk));
      advance(chunks_allowed_, static_cast<std::uint16_t>(grants.bulk >> 16));
    }
    if (static_cast<std::int32_t>(static_cast<std::uint32_t>(grants.small >> 32) - acknowledged_) >= 0) {
      advance(allowed_[1], static_cast<std::uint16_t>(grants.small >> 16));
      advance(allowed_[2], static_cast<std::uint16_t>(grants.small));
    }
  }
  // A buffer of that class, or a chunk, is free (and posted) again.
  void grant(Class message_class) { ++granted_[static_cast<int>(message_class)]; }
  void grant_chunk() { ++chunks_granted_; }

  // Whether the peer should be told by itself: it waits for an acknowledgement, or half of what it may use has come
  // back without a message of ours to say so.
  bool grant_due() const {
    if (acknowledge_now_ || received_ - written_received_ >= kRewriteAfter) return true;
    if (static_cast<std::uint16_t>(chunks_granted_ - told_chunks_) >= half_chunks_ && half_chunks_ != 0) return true;
    for (int c = 0; c < kClasses; ++c)
      if (static_cast<std::uint16_t>(granted_[c] - told_[c]) >= half_[c] && half_[c] != 0) return true;
    return false;
  }
  // Whether the peer waits to hear that its message has come.
  bool acknowledgement_due() const { return acknowledge_now_; }
  // The counts to write to the peer; it counts as told from now on.
  Grants take_grants();

  std::uint16_t epoch() const { return epoch_; }
  std::uint32_t received() const { return received_; }
  // Credits in hand and outstanding, for statistics and the ledger's check.
  std::uint16_t credits(Class c) const {
    return static_cast<std::uint16_t>(allowed_[static_cast<int>(c)] - sent_[static_cast<int>(c)]);
  }
  std::uint16_t chunk_credits() const { return static_cast<std::uint16_t>(chunks_allowed_ - chunks_sent_); }
  std::uint16_t granted(Class c) const { return granted_[static_cast<int>(c)]; }

 private:
  // Grant words older than this many messages are written anew, long before their 32-bit count could seem to lie ahead.
  static constexpr std::uint32_t kRewriteAfter = 1u << 29;

  // Counts only move forward: an older carrier that arrives late changes nothing.
  static void advance(std::uint16_t &count, std::uint16_t to) {
    if (static_cast<std::int16_t>(to - count) > 0) count = to;
  }

  // Sending
  std::uint32_t next_sequence_ = 0;
  std::uint32_t acknowledged_ = 0;
  std::uint32_t slots_ = 0;
  std::array<std::uint16_t, kClasses> sent_{}, allowed_{};
  std::uint16_t chunks_sent_ = 0, chunks_allowed_ = 0;
  // Receiving
  std::uint32_t received_ = 0;
  std::uint32_t written_received_ = 0;  // as of the last take_grants()
  std::array<std::uint16_t, kClasses> granted_{}, told_{}, half_{};
  std::uint16_t chunks_granted_ = 0, told_chunks_ = 0, half_chunks_ = 0;
  std::uint16_t epoch_ = 0;
  bool acknowledge_now_ = false;
};

}  // namespace tutti::link

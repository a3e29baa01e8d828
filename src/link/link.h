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
#include <vector>

#include "base/check.h"
#include "link/header.h"

namespace tutti::link {

// Equal on all ranks (a function of the number of ranks and of configuration that start-up has compared).
struct Limits {
  std::array<std::uint16_t, kClasses> credits{};  // receive buffers granted to each peer at the start
  std::uint16_t chunks = 0;                       // staging chunks granted to each peer at the start
  std::uint32_t slots = 0;  // unacknowledged messages at most; a power of two >= all credits together
  // Unacknowledged bytes at most, headers included, of messages above free_bytes, each in whole lines; 0: no bound.
  std::uint32_t wire_bytes = 0;
  std::uint32_t free_bytes = 0;    // a message up to this takes nothing of wire_bytes
  std::uint32_t wire_reserve = 0;  // of wire_bytes, for control messages
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
  std::int64_t free_bytes = 0;  // a message up to this is a packet, but takes none of wire_bytes
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

  // Sending. can_send() and has_room() first; stamp() takes the credit and makes the header. `bytes` is what goes
  // through the receive queue: header and payload, or 0 for a staged message.
  bool can_send(Class message_class) const {
    const int c = static_cast<int>(message_class);
    return allowed_[c] != sent_[c] && next_sequence_ - acknowledged_ < slots_;
  }
  // Whether the wire takes a message of so many bytes in, header included. A device without bounds takes any.
  bool has_room(Class message_class, std::size_t bytes) const {
    if (bytes <= free_bytes_) return true;
    const std::uint32_t most = message_class == Class::control ? wire_bytes_ : wire_bytes_ - wire_reserve_;
    const std::uint32_t oldest = acknowledged_ == next_sequence_ ? position_ : begins_[acknowledged_ & (slots_ - 1)];
    return position_ - oldest + lines(bytes) <= most;
  }
  bool can_send_chunk() const { return allowed_[kChunks] != sent_[kChunks] && can_send(Class::collective); }
  std::uint32_t next_sequence() const { return next_sequence_; }
  std::uint16_t next_chunk() const { return sent_[kChunks]; }
  Header stamp(Class message_class, Kind kind, std::uint8_t flags, std::uint16_t communicator, std::uint32_t call,
               std::uint32_t signature, std::size_t bytes) {
    TUTTI_DCHECK(can_send(message_class) && has_room(message_class, bytes));
    if (wire_bytes_ != 0) {
      begins_[next_sequence_ & (slots_ - 1)] = position_;
      if (bytes > free_bytes_) position_ += lines(bytes);
    }
    ++sent_[static_cast<int>(message_class)];
    mark_told();
    const auto shifted = [](std::uint64_t value, int by) { return value << by; };
    return {.identity = own_identity_ | static_cast<std::uint64_t>(kind) | shifted(flags, 8) |
                        shifted(communicator, 32) | shifted(next_sequence_++, 48),
            .counts = granted_counts_ | (received_ & 0xffff),
            .stream = call | shifted(signature, 32)};
  }
  void take_chunk() { ++sent_[kChunks]; }
  // Whether everything up to and including that sequence is acknowledged.
  bool acknowledged(std::uint32_t sequence) const { return static_cast<std::int32_t>(acknowledged_ - sequence) > 0; }
  std::uint32_t retained() const { return next_sequence_ - acknowledged_; }

  // After a reconnect: both ends go on under the new epoch, and the other end has received and granted what it says.
  // False if that cannot be: it has received what was never sent, or has forgotten what it had acknowledged.
  bool resume(std::uint16_t epoch, const Grants &theirs);
  // The first that the other end has not acknowledged; with next_sequence() the ones to send again.
  std::uint32_t first_retained() const { return acknowledged_; }
  // Makes the header of a retained message one of this connection, with the counts of now.
  void renew(Header &header) {
    header.identity = (header.identity & ~kEpochMask) | (own_identity_ & kEpochMask);
    header.counts = granted_counts_ | (received_ & 0xffff);
  }

  // Receiving.
  // `bytes` as in stamp().
  Arrival accept(const Header &header, std::size_t bytes) {
    if (((header.identity ^ expected_identity_) & kExpectedMask) != 0 || header.kind() > kLastKind) [[unlikely]]
      return refuse(header);
    expected_identity_ += kOneSequence;
    ++received_;
    if (bytes > free_bytes_) {
      untold_bytes_ += lines(bytes);
      due_ |= untold_bytes_ >= wire_bytes_ / 4;
    }
    const std::uint64_t news = header.counts ^ heard_counts_;
    if (news != 0) {
      heard_counts_ = header.counts;
      const auto acknowledged =
          static_cast<std::int16_t>(header.received() - static_cast<std::uint16_t>(acknowledged_));
      heard_received_ = acknowledged_ + static_cast<std::uint32_t>(acknowledged);
      // Grant words may have overtaken this message: then its counts are old, too old perhaps for 8 bits.
      if (acknowledged >= 0) [[likely]] {
        acknowledged_ = heard_received_;
        if (news >> 16 != 0) hear_grants(header);
      }
    }
    return Arrival::deliver;
  }
  void learn(const Grants &grants) {
    // A word written before what messages have carried since is old: its 16-bit counts may seem to lie ahead.
    const auto bulk_received = static_cast<std::uint32_t>(grants.bulk >> 32);
    // What has come and was not looked at has 16 bits of such a count: words must not run away from it.
    if (static_cast<std::int32_t>(bulk_received - heard_received_) > kMostAhead) return;
    if (static_cast<std::int32_t>(bulk_received - acknowledged_) >= 0) {
      acknowledged_ = bulk_received;
      advance(allowed_[0], static_cast<std::uint16_t>(grants.bulk));
      advance(allowed_[kChunks], static_cast<std::uint16_t>(grants.bulk >> 16));
    }
    if (static_cast<std::int32_t>(static_cast<std::uint32_t>(grants.small >> 32) - acknowledged_) >= 0) {
      advance(allowed_[1], static_cast<std::uint16_t>(grants.small >> 16));
      advance(allowed_[2], static_cast<std::uint16_t>(grants.small));
    }
  }
  // All messages that have come were looked at.
  void caught_up() { heard_received_ = acknowledged_; }
  // A buffer of that class, or a chunk, is free (and posted) again.
  void grant(Class message_class) { grant_one(static_cast<int>(message_class)); }
  void grant_chunk() { grant_one(kChunks); }

  // Whether the peer should be told by itself: half of what it may use has come back (of the wire: a quarter, so that a
  // sender never waits for the rest) without a message of ours to say so.
  bool grant_due() const { return due_; }
  // The counts to write to the peer; it counts as told from now on.
  Grants take_grants();
  // Whether messages have come since the last of those.
  bool received_since_grants() const { return received_ != written_received_; }

  std::uint16_t epoch() const { return static_cast<std::uint16_t>(own_identity_ >> 16); }
  std::uint32_t received() const { return received_; }
  // Credits in hand and outstanding, for statistics and the ledger's check.
  std::uint16_t credits(Class c) const {
    return static_cast<std::uint16_t>(allowed_[static_cast<int>(c)] - sent_[static_cast<int>(c)]);
  }
  std::uint16_t chunk_credits() const { return static_cast<std::uint16_t>(allowed_[kChunks] - sent_[kChunks]); }
  std::uint16_t granted(Class c) const { return granted_[static_cast<int>(c)]; }

 private:
  // Beside the classes in the arrays of counts: staging chunks.
  static constexpr int kChunks = kClasses;
  using Counts = std::array<std::uint16_t, kClasses + 1>;
  // Grant words older than this many messages are written anew, long before their 32-bit count could seem to lie ahead.
  static constexpr std::uint32_t kRewriteAfter = 1u << 29;
  // How many messages more than the last one looked at said words may acknowledge; with those in flight well below
  // 2^15.
  static constexpr std::int32_t kMostAhead = 1 << 13;
  // Of a header's identity: what every message of this connection has (version, epoch), and the next one (sequence).
  static constexpr std::uint64_t kExpectedMask = 0xffff'0000'ffff'00f0, kOneSequence = std::uint64_t{1} << 48;
  static constexpr std::uint64_t kEpochMask = 0xffff'0000;

  // Counts only move forward: an older carrier that arrives late changes nothing.
  static void advance(std::uint16_t &count, std::uint16_t to) {
    if (static_cast<std::int16_t>(to - count) > 0) count = to;
  }
  void grant_one(int c) {
    ++granted_[c];
    granted_counts_ = pack(granted_);
    due_ |= static_cast<std::uint16_t>(granted_[c] - told_[c]) >= half_[c] ||
            received_ - written_received_ >= kRewriteAfter;
  }
  void mark_told() {
    told_ = granted_;
    untold_bytes_ = 0;
    due_ = false;
  }
  static std::uint32_t lines(std::size_t bytes) { return static_cast<std::uint32_t>((bytes + 63) & ~std::size_t{63}); }
  static std::uint64_t pack(const Counts &granted) {
    return static_cast<std::uint64_t>(granted[0]) << 16 | static_cast<std::uint64_t>(granted[kChunks]) << 32 |
           static_cast<std::uint64_t>(granted[1] & 0xff) << 48 | static_cast<std::uint64_t>(granted[2]) << 56;
  }
  Arrival refuse(const Header &header) const;
  void hear_grants(const Header &header);

  // Sending
  std::uint32_t next_sequence_ = 0;
  std::uint32_t acknowledged_ = 0;
  std::uint32_t slots_ = 0;
  Counts sent_{}, allowed_{};
  std::uint32_t wire_bytes_ = 0, free_bytes_ = UINT32_MAX, wire_reserve_ = 0;
  std::uint32_t position_ = 0;  // of the next message on the wire, in bytes, since the start; may wrap
  std::vector<std::uint32_t>
      begins_;  // positions of unacknowledged messages, by sequence modulo slots; empty: no bound
  // Receiving
  std::uint32_t received_ = 0;
  std::uint32_t written_received_ = 0;  // as of the last take_grants()
  std::uint32_t untold_bytes_ = 0;      // of the wire, received and not yet acknowledged
  Counts granted_{}, told_{}, half_{};
  std::uint64_t own_identity_ = 0;       // version and epoch, in place
  std::uint64_t granted_counts_ = 0;     // granted_, as headers carry it
  std::uint64_t expected_identity_ = 0;  // of the next message, as far as kExpectedMask goes
  std::uint64_t heard_counts_ = 0;       // the counts of the last message
  std::uint32_t heard_received_ = 0;     // that message's, whole
  bool due_ = false;
};

}  // namespace tutti::link

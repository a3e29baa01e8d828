// SPDX-License-Identifier: BSD-3-Clause
#include "link/link.h"

#include <algorithm>
#include <bit>

namespace tutti::link {
namespace {

// Receive buffers per peer by mesh size: enough to stream between few, affordable between many. At least two each, so
// that one can be under way while another is consumed.
struct CreditRow {
  int max_ranks;
  std::uint16_t collective, point_to_point, control;
};
// Collectives have many more where that is affordable: with more ranks than cores, each turn on a core then serves many
// calls (8 ranks on two cores, broadcast of 8 B: 0.9 us with 64, 1.5 us with 16).
constexpr CreditRow kCreditTable[] = {
    {8, 64, 8, 4},
    {32, 24, 6, 4},
    {128, 8, 4, 2},
    {INT32_MAX, 4, 2, 2},
};

// Staging memory of a rank for all its peers together, and the chunks per peer within it.
constexpr std::int64_t kStagingBytes = std::int64_t{64} << 20;
constexpr std::int64_t kMinChunks = 2, kMaxChunks = 8;
// One credit under way while another is being consumed.
constexpr std::int64_t kMinCredits = 2;

constexpr std::int64_t kLeastMessages = kClasses * kMinCredits;
// The largest control message is about this long.
constexpr std::int64_t kControlBytes = 512;

std::int64_t round_up_to_line(std::int64_t bytes) { return std::max<std::int64_t>(1, (bytes + 63) / 64) * 64; }

// How many messages may be under way at once, so that the least messages still fit into the packets that are left if
// they are of the largest size: bytes beyond a message's first packet take one more for each packet_bytes.
std::int64_t most_messages(const LimitInputs &inputs) {
  if (inputs.wire_packets == INT64_MAX) return INT64_MAX;
  const std::int64_t least_bytes = kLeastMessages * round_up_to_line(inputs.message_bytes);
  return inputs.wire_packets - (least_bytes + inputs.packet_bytes - 1) / inputs.packet_bytes;
}

}  // namespace

std::int64_t largest_message(const LimitInputs &inputs) {
  std::int64_t bytes = INT64_MAX;
  if (inputs.wire_packets != INT64_MAX) {
    const std::int64_t spare = inputs.wire_packets - kLeastMessages;
    if (spare < INT64_MAX / inputs.packet_bytes) bytes = spare * inputs.packet_bytes / kLeastMessages / 64 * 64;
  }
  // One message's worth is lost where the wire's ring wraps around.
  return std::min(bytes, inputs.wire_bytes / (kLeastMessages + 1) / 64 * 64);
}

Limits limits_for(const LimitInputs &inputs) {
  const CreditRow &row =
      *std::ranges::find_if(kCreditTable, [&](const CreditRow &r) { return inputs.ranks <= r.max_ranks; });
  Limits limits;
  limits.credits = {row.collective, row.point_to_point, row.control};
  if (inputs.credits_setting > 0)
    limits.credits[0] = static_cast<std::uint16_t>(std::max(kMinCredits, inputs.credits_setting));
  const std::int64_t peers = std::max(1, inputs.ranks - 1);
  const std::int64_t share = std::max(kLeastMessages, std::min(inputs.srq_capacity / peers, most_messages(inputs)));
  if (limits.credits[0] + limits.credits[1] + limits.credits[2] > share) {
    // The small classes keep what they have while collectives have more than both together.
    const std::int64_t small = limits.credits[1] + limits.credits[2];
    if (share >= 2 * small) {
      limits.credits[0] = static_cast<std::uint16_t>(share - small);
    } else {
      const std::int64_t spare = share - kLeastMessages;
      limits.credits[2] = kMinCredits;
      limits.credits[1] = static_cast<std::uint16_t>(kMinCredits + spare / 3);
      limits.credits[0] = static_cast<std::uint16_t>(kMinCredits + spare - spare / 3);
    }
  }
  // A power of two, so that the 16-bit count of chunks may wrap around.
  const auto chunks =
      static_cast<std::uint64_t>(std::clamp(kStagingBytes / (peers * inputs.chunk_bytes), kMinChunks, kMaxChunks));
  limits.chunks = static_cast<std::uint16_t>(std::bit_floor(chunks));
  const unsigned total = limits.credits[0] + 0u + limits.credits[1] + limits.credits[2];
  limits.slots = std::bit_ceil(total);
  if (inputs.wire_bytes != INT64_MAX) {
    // Where the ring wraps around, up to a message's worth is lost; packets beyond each message's first carry a whole
    // packet's bytes at least.
    const std::int64_t in_packets =
        inputs.packet_bytes == INT64_MAX ? INT64_MAX : (inputs.wire_packets - total) * inputs.packet_bytes;
    limits.wire_bytes =
        static_cast<std::uint32_t>(std::min(inputs.wire_bytes - round_up_to_line(inputs.message_bytes), in_packets));
    limits.free_bytes = static_cast<std::uint32_t>(inputs.free_bytes);
    limits.wire_reserve = static_cast<std::uint32_t>(
        std::min(kMinCredits * kControlBytes, kMinCredits * round_up_to_line(inputs.message_bytes)));
  }
  return limits;
}

Link::Link(const Limits &limits, std::uint16_t epoch, std::uint32_t first_sequence)
    : next_sequence_(first_sequence),
      acknowledged_(first_sequence),
      slots_(limits.slots),
      allowed_{limits.credits[0], limits.credits[1], limits.credits[2], limits.chunks},
      wire_bytes_(limits.wire_bytes),
      free_bytes_(limits.wire_bytes == 0 ? UINT32_MAX : limits.free_bytes),
      wire_reserve_(limits.wire_reserve),
      begins_(limits.wire_bytes == 0 ? 0 : limits.slots),
      received_(first_sequence),
      written_received_(first_sequence),
      granted_(allowed_),
      told_(allowed_),
      own_identity_(std::uint64_t{kVersion} << 4 | std::uint64_t{epoch} << 16),
      granted_counts_(pack(granted_)),
      expected_identity_(own_identity_ | std::uint64_t{first_sequence} << 48) {
  heard_received_ = first_sequence;
  TUTTI_CHECK(std::has_single_bit(limits.slots) && limits.slots < 1u << 15);
  // Headers carry 8 bits of these counts, which have to tell forward from backward.
  TUTTI_CHECK(limits.credits[1] < 128 && limits.credits[2] < 128);
  for (std::size_t c = 0; c < half_.size(); ++c) half_[c] = std::max<std::uint16_t>(1, (granted_[c] + 1) / 2);
}

Arrival Link::refuse(const Header &header) const {
  if (header.epoch() != epoch())
    return static_cast<std::int16_t>(header.epoch() - epoch()) < 0 ? Arrival::stale : Arrival::broken;
  const auto ahead = static_cast<std::int16_t>(header.sequence() - static_cast<std::uint16_t>(received_));
  return header.version() == kVersion && header.kind() <= kLastKind && ahead < 0 ? Arrival::duplicate : Arrival::broken;
}

void Link::hear_grants(const Header &header) {
  advance(allowed_[0], header.granted_collective());
  advance(allowed_[kChunks], header.granted_chunks());
  const auto advance_low = [](std::uint16_t &count, std::uint8_t to) {
    const auto more = static_cast<std::int8_t>(to - static_cast<std::uint8_t>(count));
    if (more > 0) count = static_cast<std::uint16_t>(count + more);
  };
  advance_low(allowed_[1], header.granted_point_to_point());
  advance_low(allowed_[2], header.granted_control());
}

bool Link::resume(std::uint16_t epoch, const Grants &theirs) {
  const auto received = static_cast<std::uint32_t>(theirs.bulk >> 32);
  if (received - acknowledged_ > next_sequence_ - acknowledged_) return false;
  heard_received_ = received;
  learn(theirs);
  const std::uint64_t shifted = std::uint64_t{epoch} << 16;
  own_identity_ = (own_identity_ & ~kEpochMask) | shifted;
  expected_identity_ = (expected_identity_ & ~kEpochMask) | shifted;
  return true;
}

Grants Link::take_grants() {
  mark_told();
  written_received_ = received_;
  const std::uint64_t received = static_cast<std::uint64_t>(received_) << 32;
  return {received | static_cast<std::uint64_t>(granted_[kChunks]) << 16 | granted_[0],
          received | static_cast<std::uint64_t>(granted_[1]) << 16 | granted_[2]};
}

}  // namespace tutti::link

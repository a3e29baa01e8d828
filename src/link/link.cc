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
constexpr CreditRow kCreditTable[] = {
    {8, 32, 16, 4},
    {32, 16, 8, 4},
    {128, 8, 4, 2},
    {INT32_MAX, 4, 2, 2},
};

// Staging memory of a rank for all its peers together, and the chunks per peer within it.
constexpr std::int64_t kStagingBytes = std::int64_t{64} << 20;
constexpr std::int64_t kMinChunks = 2, kMaxChunks = 8;
// One credit under way while another is being consumed.
constexpr std::int64_t kMinCredits = 2;

}  // namespace

Limits limits_for(int ranks, std::int64_t credits_setting, std::int64_t chunk_bytes, std::uint32_t srq_capacity) {
  const CreditRow &row = *std::ranges::find_if(kCreditTable, [&](const CreditRow &r) { return ranks <= r.max_ranks; });
  Limits limits;
  limits.credits = {row.collective, row.point_to_point, row.control};
  if (credits_setting > 0) limits.credits[0] = static_cast<std::uint16_t>(std::max(kMinCredits, credits_setting));
  const std::int64_t peers = std::max(1, ranks - 1);
  const std::int64_t share = srq_capacity / peers;  // buffers that each peer can have
  if (limits.credits[0] + limits.credits[1] + limits.credits[2] > share) {
    const std::int64_t spare = std::max<std::int64_t>(0, share - kClasses * kMinCredits);
    limits.credits[2] = kMinCredits;
    limits.credits[1] = static_cast<std::uint16_t>(kMinCredits + spare / 3);
    limits.credits[0] = static_cast<std::uint16_t>(kMinCredits + spare - spare / 3);
  }
  limits.chunks = static_cast<std::uint16_t>(std::clamp(kStagingBytes / (peers * chunk_bytes), kMinChunks, kMaxChunks));
  const unsigned total = limits.credits[0] + 0u + limits.credits[1] + limits.credits[2];
  limits.slots = std::bit_ceil(total);
  return limits;
}

Link::Link(const Limits &limits, std::uint16_t epoch)
    : slots_(limits.slots),
      allowed_(limits.credits),
      chunks_allowed_(limits.chunks),
      granted_(limits.credits),
      told_(limits.credits),
      chunks_granted_(limits.chunks),
      told_chunks_(limits.chunks),
      epoch_(epoch) {
  TUTTI_CHECK(std::has_single_bit(limits.slots));
  for (int c = 0; c < kClasses; ++c) half_[c] = static_cast<std::uint16_t>((limits.credits[c] + 1) / 2);
  half_chunks_ = static_cast<std::uint16_t>((limits.chunks + 1) / 2);
}

Grants Link::take_grants() {
  acknowledge_now_ = false;
  written_received_ = received_;
  told_ = granted_;
  told_chunks_ = chunks_granted_;
  const std::uint64_t received = static_cast<std::uint64_t>(received_) << 32;
  return {received | static_cast<std::uint64_t>(chunks_granted_) << 16 | granted_[0],
          received | static_cast<std::uint64_t>(granted_[1]) << 16 | granted_[2]};
}

}  // namespace tutti::link

// SPDX-License-Identifier: BSD-3-Clause
//
// What a rank shows of itself while it runs, to tutti-info --job: plain data in a memory file without a path, found
// through /proc/PID/fd, so nothing is left behind, and who may not look at the process does not see it.
//
// Invariant: one writer. `sequence` is odd while it writes; a reader that saw an odd or another value copies again.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/link_state.h"

namespace tutti {

inline constexpr char kLiveName[] = "tutti-stats";
inline constexpr std::uint64_t kLiveMagic = 0x7374'6174'7574'7431;  // a file of that name may be anybody's
inline constexpr std::uint32_t kLiveVersion = 1;                    // of everything below

struct LivePeer {
  std::int32_t rank;
  LinkState state;
  std::uint32_t epoch, reconnects, retransmitted;
  std::uint32_t sent, received, unacknowledged, held;  // messages
  std::uint32_t credits, message_credits, control_credits, chunk_credits;
  std::uint32_t reserved;
  std::int64_t heard_ns;  // when a message from it was last noticed, on the monotonic clock; 0: never
};

struct LiveHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t peers;  // rows that follow
  std::atomic<std::uint32_t> sequence;
  std::int32_t rank, ranks;
  std::uint32_t failed;     // the world is of no use any more
  std::int64_t written_ns;  // on the monotonic clock: a rank that computes does not write
  std::uint64_t messages_sent, bytes_sent, messages_received, stalls;
  std::uint32_t posted, filled, spent, reserved;  // shared receive queues: buffers
};

static_assert(sizeof(LivePeer) == 64 && sizeof(LiveHeader) == 88);
static_assert(std::is_trivially_copyable_v<LivePeer> && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace tutti

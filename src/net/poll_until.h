// SPDX-License-Identifier: BSD-3-Clause
//
// poll(2) until an absolute time: interrupted waits just return, since every caller loops anyway.
#pragma once

#include <poll.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"

namespace tutti::net {

inline void poll_until(std::vector<pollfd> &polls, std::int64_t until_ns) {
  int timeout_ms = -1;
  if (until_ns != INT64_MAX) {
    constexpr std::int64_t kLongestMs = 1'000'000'000;  // fits poll's int
    const std::int64_t left = until_ns - now_ns();
    // Rounded up: waking just before the time would spin.
    timeout_ms = left <= 0 ? 0
                           : static_cast<int>(std::min(
                                 (left + kNanosecondsPerMillisecond - 1) / kNanosecondsPerMillisecond, kLongestMs));
  }
  ::poll(polls.data(), polls.size(), timeout_ms);
}

inline std::int64_t until(Deadline deadline) {
  const int left = deadline.left_ms();
  return left < 0 ? INT64_MAX : now_ns() + left * kNanosecondsPerMillisecond;
}

}  // namespace tutti::net

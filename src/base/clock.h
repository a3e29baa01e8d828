// SPDX-License-Identifier: BSD-3-Clause
//
// The steady clock, in nanoseconds. State machines take `now` as an argument; only shells read the clock.
#pragma once

#include <cstdint>
#include <ctime>

namespace tutti {

inline std::int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

inline constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
inline constexpr std::int64_t kNanosecondsPerMillisecond = 1'000'000;

// A point in time after which waiting ends. A default-constructed deadline never comes.
class Deadline {
 public:
  Deadline() = default;
  static Deadline after_ms(std::int64_t ms) { return Deadline(now_ns() + ms * kNanosecondsPerMillisecond); }
  bool passed() const { return at_ns_ != INT64_MAX && now_ns() >= at_ns_; }
  // What is left, rounded up, for poll(2): 0 when passed, -1 when it never comes.
  int left_ms() const {
    if (at_ns_ == INT64_MAX) return -1;
    const std::int64_t left = at_ns_ - now_ns();
    if (left <= 0) return 0;
    const std::int64_t ms = (left + kNanosecondsPerMillisecond - 1) / kNanosecondsPerMillisecond;
    return ms > 1'000'000'000 ? 1'000'000'000 : static_cast<int>(ms);
  }

 private:
  explicit Deadline(std::int64_t at_ns) : at_ns_(at_ns) {}
  std::int64_t at_ns_ = INT64_MAX;
};

}  // namespace tutti

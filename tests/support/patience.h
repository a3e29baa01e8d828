// SPDX-License-Identifier: BSD-3-Clause
//
// A limit of time for tests of what has to happen soon, on machines that do other things, too: time in which the
// machine does not let whoever waits run does not count.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace tutti::test {

class Patience {
 public:
  static constexpr int kStepMs = 10;  // how often to look, about

  explicit Patience(int seconds) : left_ns_(seconds * kNanosecondsPerSecond) {}
  // Whether the time is over; after each nap of a step.
  bool over() {
    const std::int64_t now = now_ns();
    left_ns_ -= std::min(now - looked_ns_, 2 * kStepMs * kNanosecondsPerMillisecond);
    looked_ns_ = now;
    return left_ns_ <= 0;
  }

 private:
  std::int64_t left_ns_, looked_ns_ = now_ns();
};

}  // namespace tutti::test

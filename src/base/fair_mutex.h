// SPDX-License-Identifier: BSD-3-Clause
//
// A mutex that serves in the order of arrival. A thread that polls under a lock and gives it up between two polls would
// get a std::mutex back again and again before another that waits for it has woken up.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

class FairMutex {
 public:
  void lock() {
    const std::uint32_t ticket = next_.fetch_add(1);
    for (std::uint32_t now; (now = serving_.load()) != ticket;) serving_.wait(now);
  }
  // In the one order of all sequentially consistent operations either the number that a waiter has drawn is seen here,
  // or what is stored here is seen by the waiter before it sleeps.
  void unlock() {
    const std::uint32_t now = serving_.fetch_add(1) + 1;
    if (next_.load() != now) serving_.notify_all();
  }

 private:
  std::atomic<std::uint32_t> next_{0}, serving_{0};
};

}  // namespace tutti

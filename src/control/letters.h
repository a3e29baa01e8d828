// SPDX-License-Identifier: BSD-3-Clause
//
// Keeping letters, without knowing how they travel. Pure. Outbox: letters that wait to leave, by rank. Unread: which
// letters that came nobody has taken yet, and whose senders are to be told so.
// Invariant: both are bounded by rank, and the oldest goes first: senders repeat, so what is newer supersedes it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "net/frame.h"

namespace tutti::control {

inline constexpr std::size_t kMostLetters = 16;
// A program that communicates looks far more often, and who recovers a connection is more patient than that.
inline constexpr std::int64_t kDeferAfter = 500 * kNanosecondsPerMillisecond;
// A sender that is told once a second that its letters wait knows enough.
inline constexpr std::int64_t kDeferAgainAfter = kNanosecondsPerSecond;

class Outbox {
 public:
  using Bodies = std::deque<net::Bytes>;

  void push(int rank, net::Bytes body);
  bool holds(int rank) const { return bodies_.contains(rank); }
  Bodies take(int rank);
  std::map<int, Bodies> take_all();
  void drop(int rank) { bodies_.erase(rank); }
  void clear() { bodies_.clear(); }

 private:
  std::map<int, Bodies> bodies_;  // none of them is empty
};

class Unread {
 public:
  struct Entry {
    std::uint64_t number;  // counts up from 1
    std::optional<std::uint64_t> displaced;
  };
  Entry letter(int from, std::int64_t now);
  // The news that `from` has not looked at our letters yet. One is as good as several, and it needs no answer.
  Entry notice(int from);
  // All up to this number were taken.
  void taken(std::uint64_t through);
  void clear() { senders_.clear(); }

  // Who is to be told now that their letters wait: for the first time, or again, which only heartbeats do.
  std::vector<int> due(std::int64_t now, bool heartbeat);
  // When due() is due without a heartbeat; INT64_MAX: not at all. Twice a second at most, however many senders.
  std::int64_t next_time() const;

 private:
  struct Sender {
    std::deque<std::uint64_t> letters;
    std::optional<std::uint64_t> notice;
    std::int64_t since = 0;                 // when the first of them came; meaningless without
    std::optional<std::int64_t> last_told;  // since then
  };
  std::map<int, Sender> senders_;
  std::uint64_t last_number_ = 0;
  std::int64_t rest_until_ = INT64_MIN;
};

}  // namespace tutti::control

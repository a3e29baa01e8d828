// SPDX-License-Identifier: BSD-3-Clause
//
// Letters between ranks, as control would bring them: in order, but late, and now and then lost.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "support/random.h"

namespace tutti::test {

class Postbox {
 public:
  struct Letter {
    int from;
    std::int64_t at_ns;
    std::vector<std::byte> body;  // empty: the other end lives, and has not looked
  };

  void post(int from, int to, std::vector<std::byte> body, std::int64_t now, Random &random) {
    if (random.one_in(10)) {
      ++lost_;
      return;
    }
    const std::int64_t at = now + static_cast<std::int64_t>(random.below(300'000));
    of_[to].push_back({{from, at, std::move(body)}, at + kDeferNs});
  }
  // That rank does not look at its letters now: control says so for it.
  void defer(int rank, std::int64_t now) {
    for (Kept &kept : of_[rank])
      if (!kept.letter.body.empty() && now >= kept.deferred_at_ns) {
        kept.deferred_at_ns = now + kDeferNs;
        of_[kept.letter.from].push_back({{rank, now, {}}, INT64_MAX});
      }
  }
  std::vector<Letter> take(int rank, std::int64_t now) {
    std::vector<Letter> letters;
    for (std::deque<Kept> &kept = of_[rank]; !kept.empty() && kept.front().letter.at_ns <= now; kept.pop_front())
      letters.push_back(std::move(kept.front().letter));
    return letters;
  }
  bool holds(int rank) { return !of_[rank].empty(); }
  std::uint64_t lost() const { return lost_; }

 private:
  // How long letters lie before control says that they have not been looked at (control/letters.h).
  static constexpr std::int64_t kDeferNs = 500'000'000;
  struct Kept {
    Letter letter;
    std::int64_t deferred_at_ns;
  };
  std::map<int, std::deque<Kept>> of_;
  std::uint64_t lost_ = 0;
};

}  // namespace tutti::test

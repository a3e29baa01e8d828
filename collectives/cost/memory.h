// SPDX-License-Identifier: BSD-3-Clause
//
// When the blocks of one rank were made: runs of blocks that came about together. What was never written is there from
// the beginning.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "collectives/schedule.h"

namespace tutti::collectives::cost {

// When the first piece of something is there and when all of it is, and after how many messages.
struct Times {
  double first = 0, last = 0;
  std::int32_t depth = 0;
};

class Memory {
 public:
  // The pieces are worked on in order, so the first of them decides when work can begin.
  Times times(Interval place) const {
    Times all;
    auto run = runs_.upper_bound(place.begin);
    if (run != runs_.begin()) --run;
    for (; run != runs_.end() && run->first < place.end; ++run) {
      if (run->second.end <= place.begin) continue;
      if (run->first <= place.begin) all.first = run->second.times.first;
      all.last = std::max(all.last, run->second.times.last);
      all.depth = std::max(all.depth, run->second.times.depth);
    }
    return all;
  }

  void write(Interval place, const Times &times) {
    split(place.begin);
    split(place.end);
    runs_.erase(runs_.lower_bound(place.begin), runs_.lower_bound(place.end));
    runs_[place.begin] = {place.end, times};
  }

 private:
  struct Run {
    std::uint64_t end;
    Times times;
  };
  // No run reaches across `at` afterwards.
  void split(std::uint64_t at) {
    auto after = runs_.lower_bound(at);
    if (after == runs_.begin()) return;
    Run &before = std::prev(after)->second;
    if (before.end <= at) return;
    const Run rest = before;
    before.end = at;
    runs_.emplace_hint(after, at, rest);
  }
  std::map<std::uint64_t, Run> runs_;  // by their first block
};

}  // namespace tutti::collectives::cost

// SPDX-License-Identifier: BSD-3-Clause
//
// What can be said of one rank's steps alone: see "form" in verify.h.
#pragma once

#include <string>

#include "collectives/schedule.h"

namespace tutti::collectives::verify {

// Blocks of all buffers of a rank in one row, so that overlap is overlap of intervals. In place, input is output.
struct Interval {
  std::uint64_t begin = 0, end = 0;
  bool meets(const Interval &other) const { return begin < other.end && other.begin < end; }
  bool operator==(const Interval &) const = default;
};
Interval interval(const Range &range, std::uint32_t blocks, bool in_place);

// What a step reads and writes; empty intervals for what it does not.
struct Access {
  Interval read, write;
  bool conflicts(const Access &earlier) const {
    return write.meets(earlier.write) || write.meets(earlier.read) || read.meets(earlier.write);
  }
};
bool is_receive(const Step &step);
bool has_peer(const Step &step);
Access access(const Step &step, std::uint32_t blocks, bool in_place);

// Empty if the step is well formed; else what is wrong.
std::string form_flaw(const Step &step, const Schedule &schedule, const Parameters &parameters);

}  // namespace tutti::collectives::verify

// SPDX-License-Identifier: BSD-3-Clause
//
// What can be said of one rank's steps alone: see "form" in verify.h.
#pragma once

#include <string>

#include "collectives/schedule.h"

namespace tutti::collectives::verify {

// What a step reads and writes; empty intervals for what it does not.
struct Access {
  Interval read, write;
  bool conflicts(const Access &earlier) const {
    return write.meets(earlier.write) || write.meets(earlier.read) || read.meets(earlier.write);
  }
};
bool is_receive(const Step &step);
bool has_peer(const Step &step);
Access access(const Step &step, const Schedule &schedule);

// Whether two ranges, of two ranks or of one, hold the same number of elements block by block, for all counts.
struct Place {
  const Schedule &schedule;
  const Parameters &parameters;
  const Range &range;
};
bool same_sizes(const Place &one, const Place &other);

// Empty if the buffers of the schedule are those of its collective; else what is wrong.
std::string buffers_flaw(const Schedule &schedule, const Parameters &parameters);
// Empty if the step is well formed; else what is wrong. `parameters` are those of the rank.
std::string form_flaw(const Step &step, const Schedule &schedule, const Parameters &parameters);

}  // namespace tutti::collectives::verify

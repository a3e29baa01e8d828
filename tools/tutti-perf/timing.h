// SPDX-License-Identifier: BSD-3-Clause
//
// Measures one point. Both libraries go through the same loop, batch by batch in turn, on the same buffers; a batch's
// time is that of the slowest rank, divided by its calls. Invariant: nothing but calls happens on the clock: filling,
// checking and bringing ranks together are off it.
#pragma once

#include <optional>

#include "tutti-perf/buffers.h"
#include "tutti-perf/job.h"
#include "tutti-perf/options.h"
#include "tutti-perf/probe.h"

namespace tutti::perf {

struct Times {
  double median_us = 0, min_us = 0, max_us = 0;
  double quarter_us = 0, three_quarters_us = 0;  // the quartiles, of batches
};

struct Point {
  std::size_t bytes = 0, count = 0;
  Times ours;
  std::optional<Times> peer;       // the other library's
  std::optional<double> limit_us;  // what the machine allows
  std::uint64_t wrong = 0;         // elements of ours, over all ranks and calls
};

// Told after each batch how far the point is, from 0 to 1.
using Tick = void (*)(double share);

Result<Point> measure(Job &job, const Options &options, const Pattern &pattern, Probe *probe, std::size_t bytes,
                      Tick tick);

}  // namespace tutti::perf

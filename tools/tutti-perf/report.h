// SPDX-License-Identifier: BSD-3-Clause
//
// What people read (a header and a table on stdout, a progress bar on a terminal's stderr) and what tools read (JSON
// with stable keys). Only rank 0 has one.
#pragma once

#include <string>
#include <vector>

#include "tutti-perf/job.h"
#include "tutti-perf/timing.h"

namespace tutti::perf {

class Report {
 public:
  Report(const Job &job, const Options &options);

  void header() const;
  void row(const Point &point);
  // The last line, and the JSON file if one was asked for.
  Result<> finish();

  // The progress bar: `share` of the current point. Nothing unless stderr is a terminal.
  void progress(double share) const;

 private:
  double bytes_per_second(const Point &point) const;
  std::string algorithm_for(std::size_t bytes) const;
  Result<> write_json() const;

  const Job &job_;
  const Options &options_;
  std::string device_, device_reason_;
  std::vector<Point> points_;
  bool terminal_;
};

// "0: cpu 0, 1: cpu 1" for the header.
std::string binding_text(const std::vector<Place> &places);

}  // namespace tutti::perf

// SPDX-License-Identifier: BSD-3-Clause
//
// The command line of tutti-tune. Invariant: what parse_options returns can be run as it is; a text instead of options
// is all there is to say, with the exit status.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "collectives/schedule.h"
#include "tutti-perf/options.h"

namespace tutti::tune {

struct Options {
  std::vector<collectives::Collective> which;
  std::vector<std::size_t> sizes;  // bytes of the whole vector, rising
  double seconds = 90;
  double least_gain = 0.05;
  std::string output;  // empty: the usual place
  bool dry = false;    // nothing is written
};

std::variant<Options, perf::Goodbye> parse_options(int argc, const char *const *argv);

}  // namespace tutti::tune

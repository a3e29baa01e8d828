// SPDX-License-Identifier: BSD-3-Clause
//
// What no algorithm can be faster than on the machine of the cost model. Each part is a bound by itself, so the bound
// is the largest of them; no algorithm reaches all at once.
#pragma once

#include "collectives/cost/machine.h"
#include "collectives/schedule.h"

namespace tutti::collectives::cost {

struct Bound {
  double latency_s = 0;    // until something of one rank can have reached all others (LogP)
  double bandwidth_s = 0;  // what has to pass the port of one host or rank
  double reduction_s = 0;  // the reductions, spread over all ranks
  double seconds() const { return std::max({latency_s, bandwidth_s, reduction_s}); }
};

// `bytes`: of the whole vector. Only collective, ranks, root and hosts of the parameters count.
Bound bound(const Parameters &parameters, double bytes, const Machine &machine);

}  // namespace tutti::collectives::cost

// SPDX-License-Identifier: BSD-3-Clause
//
// What a schedule would take on the machine of the cost model. The steps of all ranks are run in modelled time; where
// all ranks do the same and there are many, those of rank 0 alone, whose messages then stand for those it receives.
//
// The model: ports serve the steps of a rank in program order, a message after the other, each for the larger of the
// gap and its bytes over the bandwidth; what arrives can be worked on from its first piece on; reductions and copies of
// a rank come one after the other; sends are buffered. Blocks of listed counts are taken as equal.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/cost/machine.h"
#include "collectives/schedule.h"

namespace tutti::collectives::cost {

struct Estimate {
  double seconds = 0;
  std::int32_t rounds = 0;     // the longest sequence of messages of which each needs the one before
  std::uint64_t messages = 0;  // most that one rank sends
  double bytes = 0;            // most that one rank sends
  double all_bytes = 0;        // sent by all ranks
  bool all_ranks = true;       // run; else rank 0 for all of them
  std::int32_t sampled = 0;    // ranks whose messages and bytes were counted
  std::string refusal;         // not empty: nothing of the above, for this reason
};

// How much is built at most, in steps.
struct Limits {
  std::uint64_t all_ranks = 2'000'000;   // up to here all ranks are run, whether they are alike or not
  std::uint64_t different = 24'000'000;  // up to here where they differ: about 2 GB
};

// `bytes`: of the whole vector; whole elements of it are used. `parameters.rank` is ignored.
Estimate estimate(const Algorithm &algorithm, const Parameters &parameters, std::uint64_t bytes,
                  std::uint32_t element_bytes, const Machine &machine, const Limits &limits = {});

}  // namespace tutti::collectives::cost

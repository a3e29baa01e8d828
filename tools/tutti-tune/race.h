// SPDX-License-Identifier: BSD-3-Clause
//
// One size: algorithms take turns on the same buffers, first all of them, then the best few against today's choice,
// with new samples, so that who won the first part by luck does not win the second. A sample is the time of a call on
// the slowest rank, over a batch of calls.
//
// Invariant: all ranks decide alike, since they decide from samples that all of them have.
#pragma once

#include <cstdint>
#include <vector>

#include "tutti-perf/job.h"
#include "tutti-tune/circumstances.h"

namespace tutti::tune {

struct RaceOptions {
  collectives::Collective collective = collectives::Collective::allreduce;
  std::size_t count = 1;     // elements of the vector, or of a block
  double seconds = 1;        // about
  double least_gain = 0.05;  // of what counts as better
  // Today's choice and those that were better: they alone run, again. Empty: everyone who can.
  std::vector<Contestant> again = {};
};

// On `comm`, which has all of the job's ranks, and whose algorithms are anything afterwards. The
// point says if results were wrong, which all ranks learn.
Result<Point> race(perf::Job &job, tutti_comm *comm, const Circumstances &circumstances, const RaceOptions &options);

// Bytes of the whole vector that has so many elements, or blocks of them.
std::uint64_t whole_bytes(collectives::Collective collective, std::int32_t ranks, std::size_t count);
// The most elements that fit into so many bytes, and at least one.
std::size_t count_within(collectives::Collective collective, std::int32_t ranks, std::uint64_t bytes);

}  // namespace tutti::tune

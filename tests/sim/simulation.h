// SPDX-License-Identifier: BSD-3-Clause
//
// Runs a scenario: all ranks in this thread, over the stepped software device, through the real mesh, executor and
// communicators. Whose turn it is, what a poll sees, and the time are drawn from the seed, so a run repeats to the bit.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sim/scenario.h"

namespace tutti::test {

struct Outcome {
  std::string problem;      // empty: every result was right and every count adds up
  std::uint64_t trace = 0;  // hash of everything that happened, in order
  std::uint64_t steps = 0;
  std::uint64_t reconnects = 0, retransmitted = 0;  // ends of links, messages
  std::uint64_t deaths = 0, shrinks = 0;            // ranks, communicators that survivors made
  std::map<std::string, std::uint64_t> faults;      // that happened, by kind
};

Outcome simulate(const Scenario &scenario);

}  // namespace tutti::test

// SPDX-License-Identifier: BSD-3-Clause
//
// What the ranks of this run are to the library, and which algorithms they have to choose from. Equal on all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/select.h"
#include "tutti-tune/verdict.h"

namespace tutti::tune {

struct Circumstances {
  std::string machine;  // as a section of the file names it
  std::string place;    // where the file is if nobody says otherwise; empty: no home
  std::int32_t ranks = 1, ranks_per_core = 1, host_count = 1;
  std::vector<std::int32_t> hosts;  // of each rank

  collectives::Situation situation(collectives::Collective collective, std::uint64_t bytes) const;
  collectives::Parameters parameters(collectives::Collective collective, std::int32_t radix) const;
};
Result<Circumstances> circumstances_of(tutti_comm *world);

// The table's choice first, then all others that can run, in each proved radix; of those that make the same steps one.
std::vector<Contestant> contestants(const Circumstances &circumstances, collectives::Collective collective,
                                    std::uint64_t bytes);

// Proves an algorithm for these ranks, in place and not, from the first and the last root: what is wrong, or nothing.
std::string proof(const Circumstances &circumstances, const collectives::Algorithm &algorithm, std::int32_t radix);

}  // namespace tutti::tune

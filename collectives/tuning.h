// SPDX-License-Identifier: BSD-3-Clause
//
// What was measured on a machine: rows that come before the selection table there, and the text that tutti-tune keeps
// them in. A file has sections, one for each machine that it knows; a section is read only where it is needed, so that
// those of other versions, with other algorithms, do no harm. Pure.
//
// Invariant: a row names an algorithm that can run among its number of ranks, with a parameter that is proved.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collectives/schedule.h"

namespace tutti::collectives {

// It holds for these ranks, ranks per core (rounded up, the most crowded host's) and hosts alone, and for whole vectors
// of min_bytes to max_bytes.
struct TunedRow {
  static constexpr std::uint64_t kAnyBytes = std::numeric_limits<std::uint64_t>::max();

  Collective collective = Collective::allreduce;
  std::int32_t ranks = 1, ranks_per_core = 1, hosts = 1;
  std::uint64_t min_bytes = 0, max_bytes = kAnyBytes;
  const Algorithm *algorithm = nullptr;
  std::int32_t radix = 0;
  bool operator==(const TunedRow &) const = default;
};

struct TuningLine {
  int number = 0;  // in the file, from 1; 0: new
  std::string text;
};

struct TuningSection {
  std::string machine;  // what has to be equal for its rows to hold
  std::vector<TuningLine> lines;
};

// "ring", "circulant:radix=4": as calls and TUTTI_ALGO name it.
std::string algorithm_text(const Algorithm &algorithm, std::int32_t radix);
// "allreduce ranks=4 ranks/core=1 hosts=1 bytes=0-16384 circulant:radix=4"; the largest size may be "any".
std::string row_text(const TunedRow &row);
// The file as it is written.
std::string tuning_text(std::span<const TuningSection> sections);

// Errors name `place` (the file), the line, and what is wrong with it.
Result<std::vector<TuningSection>> parse_tuning(std::string_view text, std::string_view place);
Result<std::vector<TunedRow>> parse_rows(const TuningSection &section, std::string_view place);

}  // namespace tutti::collectives

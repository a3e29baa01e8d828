// SPDX-License-Identifier: BSD-3-Clause
//
// An algorithm with parameters of its own, as people name it: "ring", "circulant:radix=4", "circulant:skips=1-2-5-9",
// "throttled:window=8". What was named once is kept for the rest of the process, so that a call that names it again
// allocates nothing and two calls compare by pointer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collectives/schedule.h"

namespace tutti::collectives {

struct Variant {
  const Algorithm *algorithm = nullptr;  // null: by_table()
  std::int32_t radix = 0;                // 0: not named
  std::vector<std::int32_t> skips;       // empty: not named
  std::string text;
};

// The choice of the selection table, which is named "table": for where something else was asked for before.
const Variant &by_table();

// Errors say what of the text is wrong and what there is instead. From any thread.
Result<const Variant *> variant_of(Collective collective, std::string_view text);

// What is wrong with a list of skips among so many ranks; 0 ranks: with the list itself. Empty: nothing.
std::string skips_fault(std::span<const std::int32_t> skips, std::int32_t ranks);

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// Which algorithm runs a call: a table of data, printable and overridable, never nested ifs. It reads only what is
// equal on all ranks, so that all ranks choose alike.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collectives/schedule.h"
#include "collectives/tuning.h"
#include "collectives/variant.h"

namespace tutti::collectives {

// What the choice depends on.
struct Situation {
  Collective collective = Collective::allreduce;
  std::int32_t ranks = 1;
  std::int32_t ranks_per_core = 1;  // rounded up, the most crowded host's
  std::uint64_t bytes = 0;          // of the whole vector; 0 where no rank knows it (gatherv, scatterv, alltoallv)
  bool one_host = true;             // all ranks share a host (software device), else some pairs use the network
  bool board = false;               // they have a board in common
  bool ordered = false;             // the operator does not commute: operands have to keep rank order
  bool reproducible = false;        // reductions: by an algorithm that depends on the number of ranks alone
  std::span<const std::int32_t> hosts = {};  // of each rank, as in Parameters; empty: nobody knows
  std::int32_t host_count = 0;               // count_hosts(hosts), which takes its time
  std::span<const TunedRow> tuned = {};      // of this machine; the same on all ranks
  // Several hosts, and on some of them several ranks.
  bool shares_hosts() const { return host_count > 1 && host_count < ranks; }
};

// A row applies if every bound holds (each inclusive), and where operands have to keep rank order its algorithm does
// that; the first row that applies wins.
struct SelectionRow {
  Collective collective;
  std::int32_t min_ranks, max_ranks;
  std::int32_t min_ranks_per_core, max_ranks_per_core;
  std::uint64_t min_bytes, max_bytes;
  std::string_view algorithm;
  std::int32_t radix;
  bool shares_hosts = false;  // only where several ranks share one of several hosts
  bool board = false;         // only where they have a board
};

struct Choice {
  const Algorithm *algorithm = nullptr;
  std::int32_t radix = 2;
  std::span<const std::int32_t> skips = {};  // of a variant, which lives for ever
};

// Overrides as TUTTI_ALGO has them: "allreduce:ring,broadcast:circulant:blocks=8". Errors name the place of
// the text, the unknown part, and what exists.
struct Overrides {
  std::array<const Variant *, kCollectives> variants = {};  // by collective; null: the table decides
  const Variant *&of(Collective collective) { return variants[static_cast<std::size_t>(collective)]; }
  const Variant *of(Collective collective) const { return variants[static_cast<std::size_t>(collective)]; }
};
Result<Overrides> parse_overrides(std::string_view text, std::string_view place = "TUTTI_ALGO");

const std::vector<SelectionRow> &selection_table();
// The override if there is one for this collective, else what was measured on this machine, else by the table. An
// override that cannot run in this situation is an error, which names what can.
Result<Choice> select(const Situation &situation, const Overrides &overrides);
// The table as aligned text, one row a line, behind the rows that come before it.
std::string selection_text(std::span<const TunedRow> tuned = {});

}  // namespace tutti::collectives

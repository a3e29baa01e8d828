// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "collectives/form.h"

namespace tutti::collectives {
namespace {

constexpr std::int32_t kAnyRanks = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kAnyBytes = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB;
using enum Collective;

bool applies(const SelectionRow &row, const Situation &situation) {
  return row.collective == situation.collective && row.min_ranks <= situation.ranks &&
         situation.ranks <= row.max_ranks && row.min_ranks_per_core <= situation.ranks_per_core &&
         situation.ranks_per_core <= row.max_ranks_per_core && row.min_bytes <= situation.bytes &&
         situation.bytes <= row.max_bytes && (!row.shares_hosts || situation.shares_hosts()) &&
         (!row.board || situation.board);
}

// Whether a row applies whatever the size and the machine: which one is chosen then depends on the ranks alone.
bool applies_always(const SelectionRow &row) {
  return row.max_ranks == kAnyRanks && row.min_ranks_per_core == 1 && row.max_ranks_per_core == kAnyRanks &&
         row.min_bytes == 0 && row.max_bytes == kAnyBytes && !row.shares_hosts && !row.board;
}

Parameters parameters_of(const Situation &situation, const Choice &choice) {
  return {.collective = situation.collective,
          .ranks = situation.ranks,
          .radix = choice.radix,
          .hosts = situation.hosts,
          .skips = choice.skips};
}

// What was measured for the situation, if it can run in it; null otherwise.
const TunedRow *tuned_row(const Situation &situation) {
  for (const TunedRow &row : situation.tuned) {
    if (row.collective != situation.collective || row.ranks != situation.ranks ||
        row.ranks_per_core != situation.ranks_per_core || row.hosts != std::max(situation.host_count, 1) ||
        situation.bytes < row.min_bytes || row.max_bytes < situation.bytes ||
        (row.algorithm->on_board && !situation.board))
      continue;
    const Parameters parameters = parameters_of(situation, {row.algorithm, row.radix});
    if (row.algorithm->supports(parameters) && (!situation.ordered || keeps_rank_order(*row.algorithm, parameters)))
      return &row;
  }
  return nullptr;
}

// The algorithms of the collective that can run in the situation.
std::string names_of(const Situation &situation) {
  std::string names;
  for (const Algorithm &algorithm : algorithms()) {
    if (algorithm.collective != situation.collective) continue;
    const Choice choice{&algorithm, algorithm.radices.front()};
    if (!algorithm.supports(parameters_of(situation, choice)) ||
        (situation.ordered && !keeps_rank_order(algorithm, parameters_of(situation, choice))))
      continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", algorithm.name);
  }
  return names;
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes == kAnyBytes) return "any";
  if (bytes >= MiB && bytes % MiB == 0) return fmt::format("{}M", bytes / MiB);
  if (bytes >= KiB && bytes % KiB == 0) return fmt::format("{}K", bytes / KiB);
  return fmt::format("{}", bytes);
}

std::string ranks_text(std::int32_t ranks) { return ranks == kAnyRanks ? "any" : fmt::format("{}", ranks); }

// What an override makes of the row that applies: its own parameters, or the row's where the algorithm is the same.
Choice choice_of(const SelectionRow &row, const Algorithm &algorithm, const Variant *forced) {
  if (forced == nullptr) return {&algorithm, row.radix};
  const std::int32_t by_default = forced->algorithm == &algorithm ? row.radix : forced->algorithm->radices.front();
  return {forced->algorithm, forced->radix != 0 ? forced->radix : by_default, forced->skips};
}

// Whoever it was: a call, a communicator, and TUTTI_ALGO name algorithms alike.
std::string asked_for(const Situation &situation, const Variant &forced) {
  return fmt::format("{}:{}, which the call, tutti_comm_set_algorithms or TUTTI_ALGO asks for,",
                     collective_name(situation.collective), forced.text);
}

Error refusal(const Situation &situation, const Variant &forced) {
  const std::string name = asked_for(situation, forced);
  if (const std::string fault = skips_fault(forced.skips, situation.ranks); !fault.empty())
    return {Code::config, fmt::format("{} cannot run for {} ranks: {}", name, situation.ranks, fault)};
  return {Code::config, fmt::format("{} cannot run for {} ranks; {} can", name, situation.ranks, names_of(situation))};
}

}  // namespace

const std::vector<SelectionRow> &selection_table() {
  // Rows overlap downwards on purpose: the first that applies wins, so each needs only its upper bounds. The last row
  // of a collective takes everything.
  static const auto &rows = *new std::vector<SelectionRow>{
      // collective, ranks, ranks per core, bytes, algorithm, radix, only where hosts are shared, where there is a board
      // On a board a rank writes once, and nobody waits for a turn of anyone but those it reads. In `board` everybody
      // reads everybody's vector; where that is too much, rank 0 reduces for all, or each rank a block. Bounds for more
      // than two ranks with a core each are estimates.
      {allreduce, 2, 2, 1, kAnyRanks, 0, 256 * KiB, "board", 0, false, true},
      {allreduce, 3, 4, 2, kAnyRanks, 0, 32 * KiB, "board", 0, false, true},
      {allreduce, 5, 64, 2, kAnyRanks, 0, 512, "board", 0, false, true},
      {allreduce, 3, 64, 2, kAnyRanks, 0, 128 * KiB, "board_root", 0, false, true},
      {allreduce, 3, 64, 2, kAnyRanks, 0, 1 * MiB, "board_blocks", 0, false, true},
      {allreduce, 3, 8, 1, 1, 0, 4 * KiB, "board", 0, false, true},
      {allreduce, 3, 8, 1, 1, 0, 64 * KiB, "board_blocks", 0, false, true},
      {allreduce, 9, 16, 1, 1, 0, 512, "board", 0, false, true},
      {allreduce, 9, 16, 1, 1, 0, 32 * KiB, "board_blocks", 0, false, true},
      {broadcast, 2, 2, 1, kAnyRanks, 0, 128 * KiB, "board", 0, false, true},
      {broadcast, 3, 8, 1, 1, 0, 256 * KiB, "board", 0, false, true},
      {broadcast, 3, kAnyRanks, 2, kAnyRanks, 0, 1 * MiB, "board", 0, false, true},
      {broadcast, 9, kAnyRanks, 1, 1, 0, 32 * KiB, "board", 0, false, true},
      {barrier, 2, 16, 1, kAnyRanks, 0, kAnyBytes, "board", 0, false, true},
      {barrier, 17, kAnyRanks, 2, kAnyRanks, 0, kAnyBytes, "board", 0, false, true},
      {reduce, 2, 8, 1, 1, 0, 256 * KiB, "board", 0, false, true},
      {reduce, 2, 16, 2, kAnyRanks, 0, 1 * MiB, "board", 0, false, true},
      {reduce, 17, kAnyRanks, 2, kAnyRanks, 0, 256 * KiB, "board", 0, false, true},
      {reduce, 9, kAnyRanks, 1, 1, 0, 4 * KiB, "board", 0, false, true},
      {allgather, 2, 2, 1, kAnyRanks, 0, 512 * KiB, "board", 0, false, true},
      {allgather, 3, 8, 1, 1, 0, 256 * KiB, "board", 0, false, true},
      {allgather, 3, 4, 2, kAnyRanks, 0, 3 * MiB, "board", 0, false, true},
      {allgather, 5, kAnyRanks, 2, kAnyRanks, 0, 4 * MiB, "board", 0, false, true},
      {reduce_scatter_block, 2, 4, 1, 1, 0, 256 * KiB, "board", 0, false, true},
      {reduce_scatter_block, 5, 8, 1, 1, 0, 64 * KiB, "board", 0, false, true},
      {reduce_scatter_block, 2, 64, 2, kAnyRanks, 0, 512 * KiB, "board", 0, false, true},
      {reduce_scatter, 2, 4, 1, 1, 0, 256 * KiB, "board", 0, false, true},
      {reduce_scatter, 5, 8, 1, 1, 0, 64 * KiB, "board", 0, false, true},
      {reduce_scatter, 2, 64, 2, kAnyRanks, 0, 512 * KiB, "board", 0, false, true},
      {alltoall, 2, 8, 1, 1, 0, 256 * KiB, "board", 0, false, true},
      {alltoall, 2, 64, 2, kAnyRanks, 0, 512 * KiB, "board", 0, false, true},
      {alltoall, 65, kAnyRanks, 2, kAnyRanks, 0, 64 * KiB, "board", 0, false, true},
      {allreduce, 1, 2, 1, kAnyRanks, 0, 16 * KiB, "direct", 0},
      {allreduce, 1, 2, 1, kAnyRanks, 0, kAnyBytes, "circulant", 2},
      // With more ranks than cores a round costs a turn of everybody on the core, and a message its processor time: few
      // rounds and few messages, one to and from rank 0 each, not all that there can be at once.
      {allreduce, 3, 4, 2, kAnyRanks, 0, 256, "direct", 0},
      {allreduce, 3, 4, 2, kAnyRanks, 0, 16 * KiB, "leaders", 2},
      {allreduce, 5, kAnyRanks, 2, kAnyRanks, 0, 256 * KiB, "leaders", 2},
      // What leaves a host passes one port: once, not from each of its ranks. These bounds are those of the cost model.
      {allreduce, 9, kAnyRanks, 1, kAnyRanks, 0, 1 * KiB, "leaders", 8, true},
      {allreduce, 9, kAnyRanks, 1, kAnyRanks, 0, 4 * KiB, "leaders", 4, true},
      {allreduce, 9, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "hierarchical", 2, true},
      {allreduce, 3, 8, 1, kAnyRanks, 16 * KiB, kAnyBytes, "hierarchical", 2, true},
      {allreduce, 3, 8, 1, 1, 0, 1 * KiB, "direct", 0},
      {allreduce, 9, kAnyRanks, 1, kAnyRanks, 0, 2 * KiB, "recursive_multiplying", 4},
      {allreduce, 3, kAnyRanks, 1, kAnyRanks, 0, 8 * KiB, "recursive_doubling", 0},
      {allreduce, 3, 8, 1, 1, 4 * MiB, kAnyBytes, "ring", 0},
      {allreduce, 3, 8, 1, kAnyRanks, 0, 64 * KiB, "circulant", 8},
      {allreduce, 9, kAnyRanks, 1, kAnyRanks, 0, 256 * KiB, "circulant", 4},
      {allreduce, 3, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "circulant", 2},
      {allreduce, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "recursive_doubling", 0},  // in rank order
      {broadcast, 1, 2, 1, kAnyRanks, 0, kAnyBytes, "knomial", 2},
      {broadcast, 9, kAnyRanks, 1, kAnyRanks, 0, 4 * KiB, "hierarchical", 8, true},
      {broadcast, 9, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "hierarchical", 2, true},
      {broadcast, 3, kAnyRanks, 2, kAnyRanks, 0, 256 * KiB, "knomial", 8},
      {broadcast, 3, 8, 1, kAnyRanks, 0, 4 * KiB, "knomial", 8},
      {broadcast, 3, kAnyRanks, 1, kAnyRanks, 0, 16 * KiB, "knomial", 4},
      {broadcast, 3, kAnyRanks, 1, kAnyRanks, 0, 64 * KiB, "knomial", 2},
      // Many rounds: not where each costs a turn of everybody on the core.
      {broadcast, 9, kAnyRanks, 1, 1, 0, 512 * KiB, "circulant", 16},
      {broadcast, 9, kAnyRanks, 1, 1, 0, kAnyBytes, "circulant", 64},
      {broadcast, 3, 8, 1, kAnyRanks, 1 * MiB, kAnyBytes, "chain", 0},
      {broadcast, 3, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "scatter_allgather", 0},
      {barrier, 9, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "hierarchical", 8, true},
      {barrier, 5, kAnyRanks, 2, kAnyRanks, 0, kAnyBytes, "hierarchical", 2},
      {barrier, 1, 8, 1, kAnyRanks, 0, kAnyBytes, "dissemination", 8},
      {barrier, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "dissemination", 4},
      {reduce, 9, kAnyRanks, 1, kAnyRanks, 0, 4 * KiB, "hierarchical", 8, true},
      {reduce, 9, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "hierarchical", 2, true},
      {reduce, 3, kAnyRanks, 2, kAnyRanks, 0, 256 * KiB, "knomial", 8},
      {reduce, 1, 8, 1, kAnyRanks, 0, 4 * KiB, "knomial", 8},
      {reduce, 1, kAnyRanks, 1, kAnyRanks, 0, 16 * KiB, "knomial", 4},
      {reduce, 1, kAnyRanks, 1, kAnyRanks, 0, 64 * KiB, "knomial", 2},
      {reduce, 1, 2, 1, kAnyRanks, 0, kAnyBytes, "knomial", 2},
      {reduce, 9, kAnyRanks, 1, 1, 0, 512 * KiB, "circulant", 16},
      {reduce, 9, kAnyRanks, 1, 1, 0, kAnyBytes, "circulant", 64},
      {reduce, 3, 8, 1, kAnyRanks, 1 * MiB, kAnyBytes, "chain", 0},
      {reduce, 3, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "scatter_gather", 0},
      {reduce, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "knomial_ordered", 2},  // in rank order
      {reduce_scatter_block, 1, 8, 1, kAnyRanks, 0, 32 * KiB, "direct", 0},
      {reduce_scatter_block, 3, 8, 1, 1, 4 * MiB, kAnyBytes, "ring", 0},
      {reduce_scatter_block, 9, kAnyRanks, 1, kAnyRanks, 0, 256 * KiB, "circulant", 4},
      {reduce_scatter_block, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "circulant", 2},
      {reduce_scatter_block, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "direct", 0},  // in rank order
      {reduce_scatter, 1, 8, 1, kAnyRanks, 0, 32 * KiB, "direct", 0},
      {reduce_scatter, 3, 8, 1, 1, 4 * MiB, kAnyBytes, "ring", 0},
      {reduce_scatter, 9, kAnyRanks, 1, kAnyRanks, 0, 256 * KiB, "circulant", 4},
      {reduce_scatter, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "circulant", 2},
      {reduce_scatter, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "direct", 0},  // in rank order
      {allgather, 1, 8, 1, kAnyRanks, 0, 32 * KiB, "direct", 0},
      {allgather, 3, 8, 1, 1, 4 * MiB, kAnyBytes, "ring", 0},
      {allgather, 9, kAnyRanks, 1, kAnyRanks, 0, 256 * KiB, "circulant", 4},
      {allgather, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "circulant", 2},
      // Circulant copies everything once more here: for many ranks and little data.
      {allgatherv, 1, 8, 1, kAnyRanks, 0, 256 * KiB, "direct", 0},
      {allgatherv, 9, kAnyRanks, 1, kAnyRanks, 0, 256 * KiB, "circulant", 4},
      {allgatherv, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "ring", 0},
      {gather, 9, kAnyRanks, 1, kAnyRanks, 0, 64 * KiB, "knomial", 4},
      {gather, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "direct", 0},
      {gatherv, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "direct", 0},
      {scatter, 9, kAnyRanks, 1, kAnyRanks, 0, 64 * KiB, "knomial", 4},
      {scatter, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "direct", 0},
      {scatterv, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "direct", 0},
      {alltoall, 9, kAnyRanks, 1, kAnyRanks, 0, 4 * KiB, "bruck", 4},
      {alltoall, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "direct", 0},
      {alltoallv, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "direct", 0},
      {scan, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "doubling", 0},
      {exscan, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "doubling", 0},
  };
  return rows;
}

Result<Choice> select(const Situation &situation, const Overrides &overrides) {
  const Variant *forced = overrides.of(situation.collective);
  if (forced == &by_table()) forced = nullptr;
  const std::string_view name = collective_name(situation.collective);
  const auto in_order = [&](const Algorithm &algorithm) {
    return !situation.ordered || keeps_rank_order(algorithm, parameters_of(situation, {}));
  };
  if (forced && !in_order(*forced->algorithm))
    return fail(Code::config, "{} does not keep rank order, which this operator needs; {} can",
                asked_for(situation, *forced), names_of(situation));
  // Of what keeps rank order, all elements go through the same operations, whatever block they are in.
  const bool fixed = situation.reproducible && form_of(situation.collective).reduces && situation.collective != barrier;
  if (forced == nullptr && !fixed)
    if (const TunedRow *row = tuned_row(situation)) return Choice{row->algorithm, row->radix};
  const bool ordered = situation.ordered || (fixed && forced == nullptr);
  for (const SelectionRow &row : selection_table()) {
    if (!applies(row, situation)) continue;
    const Algorithm *algorithm = find_algorithm(row.collective, row.algorithm);
    TUTTI_CHECK(algorithm, "the selection table names {}, which does not exist", row.algorithm);
    if (ordered && !keeps_rank_order(*algorithm, parameters_of(situation, {}))) continue;
    if (fixed && !applies_always(row)) continue;
    const Choice choice = choice_of(row, *algorithm, forced);
    if (!choice.algorithm->supports(parameters_of(situation, choice))) {
      TUTTI_CHECK(forced, "the selection table has {} for {} ranks", algorithm->name, situation.ranks);
      return tl::unexpected<Error>(refusal(situation, *forced));
    }
    return choice;
  }
  TUTTI_CHECK(false, "the selection table has no row for {} of {} ranks", name, situation.ranks);
}

Result<Overrides> parse_overrides(std::string_view text, std::string_view place) {
  Overrides overrides;
  if (text.empty()) return overrides;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    const std::size_t colon = part.find(':');
    if (colon == std::string_view::npos)
      return fail(Code::config, "{}: '{}' is not COLLECTIVE:ALGORITHM, as in allreduce:ring", place, part);
    const std::string_view name = part.substr(0, colon), algorithm = part.substr(colon + 1);
    Collective collective = allreduce;
    if (!find_collective(name, collective))
      return fail(Code::config, "{}: there is no collective '{}'; there are {}", place, name, collective_names());
    const Variant *&slot = overrides.of(collective);
    if (slot) return fail(Code::config, "{} names {} twice; give it one algorithm", place, name);
    const Result<const Variant *> variant = variant_of(collective, algorithm);
    if (!variant) return fail(variant.error().code, "{}: {}", place, variant.error().text);
    slot = *variant;
  }
  return overrides;
}

std::string selection_text(std::span<const TunedRow> tuned) {
  constexpr std::string_view format = "{:<20} {:>9} {:>9} {:>14} {:>14} {:>9} {:>9} {:>7}  {:<21} {}\n";
  std::string text = fmt::format(format, "collective",
                                 "ranks>=", "ranks<=", "ranks/core>=", "ranks/core<=", "bytes>=", "bytes<=", "hosts",
                                 "algorithm", "radix");
  const auto radix_text = [](std::int32_t radix) { return radix == 0 ? "-" : fmt::format("{}", radix); };
  for (const TunedRow &row : tuned)
    text += fmt::format(format, collective_name(row.collective), row.ranks, row.ranks, row.ranks_per_core,
                        row.ranks_per_core, bytes_text(row.min_bytes), bytes_text(row.max_bytes), row.hosts,
                        row.algorithm->name, radix_text(row.radix));
  for (const SelectionRow &row : selection_table())
    text += fmt::format(format, collective_name(row.collective), ranks_text(row.min_ranks), ranks_text(row.max_ranks),
                        ranks_text(row.min_ranks_per_core), ranks_text(row.max_ranks_per_core),
                        bytes_text(row.min_bytes), bytes_text(row.max_bytes),
                        row.board          ? "board"
                        : row.shares_hosts ? "shared"
                                           : "any",
                        row.algorithm, radix_text(row.radix));
  return text;
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/select.h"

#include <fmt/format.h>

#include <limits>

#include "base/check.h"

namespace tutti::collectives {
namespace {

constexpr std::int32_t kAnyRanks = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kAnyBytes = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB;
constexpr Collective allreduce = Collective::allreduce, broadcast = Collective::broadcast;

bool applies(const SelectionRow &row, const Situation &situation) {
  return row.collective == situation.collective && row.min_ranks <= situation.ranks &&
         situation.ranks <= row.max_ranks && row.min_ranks_per_core <= situation.ranks_per_core &&
         situation.ranks_per_core <= row.max_ranks_per_core && row.min_bytes <= situation.bytes &&
         situation.bytes <= row.max_bytes;
}

Parameters parameters_of(const Situation &situation, const Choice &choice) {
  return {.collective = situation.collective, .ranks = situation.ranks, .radix = choice.radix};
}

// Whether an algorithm may combine the operands of a call.
bool keeps_order(const Algorithm &algorithm, bool in_rank_order) {
  return algorithm.keeps_rank_order || !in_rank_order;
}

// The algorithms of a collective, or those of them that can run for so many ranks, and in their order.
std::string names_of(Collective collective, std::int32_t ranks = 1, bool in_rank_order = false) {
  std::string names;
  for (const Algorithm &algorithm : algorithms()) {
    if (algorithm.collective != collective || !keeps_order(algorithm, in_rank_order) ||
        !algorithm.supports({.collective = collective, .ranks = ranks, .radix = algorithm.radices.front()}))
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

}  // namespace

const std::vector<SelectionRow> &selection_table() {
  // Rows overlap downwards on purpose: the first that applies wins, so each needs only its upper bounds. The last row
  // of a collective takes everything.
  static const std::vector<SelectionRow> rows = {
      // collective, ranks, ranks per core, bytes, algorithm, radix
      {allreduce, 1, 2, 1, kAnyRanks, 0, 16 * KiB, "direct", 0},
      {allreduce, 1, 2, 1, kAnyRanks, 0, kAnyBytes, "circulant", 0},
      // With more ranks than cores a round costs a turn of everybody on the core: one round, whatever the messages.
      {allreduce, 3, 16, 2, kAnyRanks, 0, 2 * KiB, "direct", 0},
      {allreduce, 3, 8, 1, 1, 0, 1 * KiB, "direct", 0},
      {allreduce, 3, kAnyRanks, 1, kAnyRanks, 0, 8 * KiB, "recursive_doubling", 0},
      {allreduce, 3, 8, 1, 1, 4 * MiB, kAnyBytes, "ring", 0},
      {allreduce, 3, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "circulant", 0},
      // Reached where circulant is not allowed: operators that do not commute.
      {allreduce, 1, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "recursive_doubling", 0},
      {broadcast, 1, 2, 1, kAnyRanks, 0, kAnyBytes, "knomial", 2},
      {broadcast, 3, 8, 1, kAnyRanks, 0, 4 * KiB, "knomial", 8},
      {broadcast, 3, kAnyRanks, 1, kAnyRanks, 0, 16 * KiB, "knomial", 4},
      {broadcast, 3, kAnyRanks, 1, kAnyRanks, 0, 64 * KiB, "knomial", 2},
      {broadcast, 3, 8, 1, kAnyRanks, 1 * MiB, kAnyBytes, "chain", 0},
      {broadcast, 3, kAnyRanks, 1, kAnyRanks, 0, kAnyBytes, "scatter_allgather", 0},
  };
  return rows;
}

Result<Choice> select(const Situation &situation, const Overrides &overrides) {
  const std::string &wanted = situation.collective == allreduce ? overrides.allreduce : overrides.broadcast;
  const Algorithm *forced = wanted.empty() ? nullptr : find_algorithm(situation.collective, wanted);
  for (const SelectionRow &row : selection_table()) {
    if (!applies(row, situation)) continue;
    const Algorithm *algorithm = find_algorithm(row.collective, row.algorithm);
    TUTTI_CHECK(algorithm, "the selection table names {}, which does not exist", row.algorithm);
    if (!forced && !keeps_order(*algorithm, situation.in_rank_order)) continue;
    // A forced algorithm keeps the radix of its own row where it is the table's choice too.
    const Choice choice =
        forced && forced != algorithm ? Choice{forced, forced->radices.front()} : Choice{algorithm, row.radix};
    if (!keeps_order(*choice.algorithm, situation.in_rank_order) ||
        !choice.algorithm->supports(parameters_of(situation, choice)))
      return fail(Code::config, "TUTTI_ALGO={}:{} cannot run for {} ranks{}; {} can",
                  collective_name(situation.collective), choice.algorithm->name, situation.ranks,
                  situation.in_rank_order ? " and an operator that does not commute" : "",
                  names_of(situation.collective, situation.ranks, situation.in_rank_order));
    return choice;
  }
  TUTTI_CHECK(false, "the selection table has no row for {} of {} ranks", collective_name(situation.collective),
              situation.ranks);
}

Result<Overrides> parse_overrides(std::string_view text) {
  Overrides overrides;
  if (text.empty()) return overrides;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    const std::size_t colon = part.find(':');
    if (colon == std::string_view::npos)
      return fail(Code::config, "TUTTI_ALGO: '{}' is not COLLECTIVE:ALGORITHM, as in allreduce:ring", part);
    const std::string_view collective = part.substr(0, colon), name = part.substr(colon + 1);
    const bool is_allreduce = collective == collective_name(allreduce);
    if (!is_allreduce && collective != collective_name(broadcast))
      return fail(Code::config, "TUTTI_ALGO: there is no collective '{}'; it takes allreduce and broadcast",
                  collective);
    std::string &slot = is_allreduce ? overrides.allreduce : overrides.broadcast;
    if (!slot.empty()) return fail(Code::config, "TUTTI_ALGO names {} twice; give it one algorithm", collective);
    const Collective which = is_allreduce ? allreduce : broadcast;
    if (!find_algorithm(which, name))
      return fail(Code::config, "TUTTI_ALGO: {} has no algorithm '{}'; it has {}", collective, name, names_of(which));
    slot = name;
  }
  return overrides;
}

std::string selection_text() {
  constexpr std::string_view format = "{:<10} {:>9} {:>9} {:>14} {:>14} {:>9} {:>9}  {:<19} {}\n";
  std::string text =
      fmt::format(format, "collective",
                  "ranks>=", "ranks<=", "ranks/core>=", "ranks/core<=", "bytes>=", "bytes<=", "algorithm", "radix");
  for (const SelectionRow &row : selection_table())
    text +=
        fmt::format(format, collective_name(row.collective), ranks_text(row.min_ranks), ranks_text(row.max_ranks),
                    ranks_text(row.min_ranks_per_core), ranks_text(row.max_ranks_per_core), bytes_text(row.min_bytes),
                    bytes_text(row.max_bytes), row.algorithm, row.radix == 0 ? "-" : fmt::format("{}", row.radix));
  return text;
}

}  // namespace tutti::collectives

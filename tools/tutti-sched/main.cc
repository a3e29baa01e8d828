// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-sched: looks at schedules without running them. Lists the algorithms and the selection table, says what would
// be chosen, prints the steps of an algorithm, and proves them for the rank counts asked for.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "collectives/select.h"
#include "collectives/verify/verify.h"

namespace {

using namespace tutti::collectives;

struct Options {
  std::string collective = "allreduce", algorithm;
  std::int32_t ranks = 4, to_ranks = 0, rank = -1, root = 0, radix = 0, ranks_per_core = 1;
  std::uint64_t bytes = 8;
  bool in_place = false;

  Collective which() const {
    return collective == collective_name(Collective::allreduce) ? Collective::allreduce : Collective::broadcast;
  }
};

int refuse(const std::string &text) {
  fmt::print(stderr, "tutti-sched: {}\n", text);
  return 2;
}

// The algorithms that the options name: one, or all of the collective.
std::vector<const Algorithm *> chosen(const Options &options) {
  std::vector<const Algorithm *> rows;
  for (const Algorithm &row : algorithms())
    if (row.collective == options.which() && (options.algorithm.empty() || row.name == options.algorithm))
      rows.push_back(&row);
  return rows;
}

Parameters parameters_of(const Options &options, const Algorithm &algorithm) {
  return {.collective = algorithm.collective,
          .ranks = options.ranks,
          .root = options.root,
          .in_place = options.in_place,
          .radix = options.radix != 0 ? options.radix : algorithm.radices.front()};
}

int list() {
  for (const Algorithm &row : algorithms())
    fmt::print("{:<9} {:<18} {:<10} {}\n{:30}{}\n", collective_name(row.collective), row.name,
               row.keeps_rank_order ? "ordered" : "commutes", row.summary, "", row.source);
  return 0;
}

int choose(const Options &options) {
  // Without an override nothing is refused.
  const Choice choice = *select({.collective = options.which(),
                                 .ranks = options.ranks,
                                 .ranks_per_core = options.ranks_per_core,
                                 .bytes = options.bytes},
                                {});
  fmt::print("{}{}\n", choice.algorithm->name, choice.radix != 0 ? fmt::format(" radix {}", choice.radix) : "");
  return 0;
}

int show(const Options &options) {
  const Algorithm *algorithm = find_algorithm(options.which(), options.algorithm);
  if (!algorithm)
    return refuse(fmt::format("{} has no algorithm '{}'; see tutti-sched list", options.collective, options.algorithm));
  Parameters parameters = parameters_of(options, *algorithm);
  if (!algorithm->supports(parameters))
    return refuse(fmt::format("{} does not support these parameters", algorithm->name));
  for (parameters.rank = 0; parameters.rank < options.ranks; ++parameters.rank) {
    if (options.rank >= 0 && options.rank != parameters.rank) continue;
    const Schedule schedule = algorithm->build(parameters);
    fmt::print("rank {}: {} blocks, {} scratch vectors\n", parameters.rank, schedule.blocks, schedule.scratch_vectors);
    for (const Step &step : schedule.steps) fmt::print("  {}\n", verify::step_text(step));
  }
  return 0;
}

int prove(Options options) {
  const std::vector<const Algorithm *> rows = chosen(options);
  if (rows.empty())
    return refuse(fmt::format("{} has no algorithm '{}'; see tutti-sched list", options.collective, options.algorithm));
  const std::int32_t last = std::max(options.ranks, options.to_ranks);
  int flaws = 0, all_proofs = 0;
  for (const Algorithm *row : rows) {
    int proofs = 0;
    for (Options at = options; at.ranks <= last; ++at.ranks) {
      const Parameters parameters = parameters_of(at, *row);
      if (parameters.root >= parameters.ranks || !row->supports(parameters)) continue;
      const std::string flaw = verify::verify(*row, parameters);
      if (!flaw.empty()) fmt::print("{}\n", flaw);
      flaws += flaw.empty() ? 0 : 1;
      ++proofs;
    }
    fmt::print("{} {}: {} rank counts checked\n", options.collective, row->name, proofs);
    all_proofs += proofs;
  }
  if (all_proofs == 0) return refuse("nothing to prove: no algorithm supports these parameters");
  return flaws == 0 ? 0 : 1;
}

void add_parameters(CLI::App &command, Options &options) {
  command.add_option("-n,--ranks", options.ranks, "number of ranks")->check(CLI::Range(1, 4096))->capture_default_str();
  command.add_option("--root", options.root, "root of a broadcast")->check(CLI::NonNegativeNumber);
  command.add_option("--radix", options.radix, "radix, of algorithms that have one")->check(CLI::Range(2, 4096));
  command.add_flag("--in-place", options.in_place, "input and output are one buffer");
}

void add_collective(CLI::App &command, Options &options) {
  command.add_option("collective", options.collective, "allreduce or broadcast")
      ->required()
      ->check(CLI::IsMember({"allreduce", "broadcast"}));
}

}  // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Lists, prints and proves the schedules of Tutti's collectives.", "tutti-sched");
  app.require_subcommand(1);
  CLI::App *list_command = app.add_subcommand("list", "all algorithms");
  CLI::App *table_command = app.add_subcommand("table", "the selection table");
  CLI::App *choose_command = app.add_subcommand("choose", "the algorithm that the table chooses");
  add_collective(*choose_command, options);
  choose_command->add_option("-n,--ranks", options.ranks, "number of ranks")->check(CLI::Range(1, 1 << 20));
  choose_command->add_option("--ranks-per-core", options.ranks_per_core, "on the most crowded host")
      ->check(CLI::PositiveNumber);
  choose_command->add_option("-b,--bytes", options.bytes, "of the whole vector")->transform(CLI::AsSizeValue(false));
  CLI::App *show_command = app.add_subcommand("show", "the steps of an algorithm");
  add_collective(*show_command, options);
  show_command->add_option("algorithm", options.algorithm, "its name")->required();
  add_parameters(*show_command, options);
  show_command->add_option("--rank", options.rank, "only this rank's")->check(CLI::NonNegativeNumber);
  CLI::App *prove_command = app.add_subcommand("prove", "verify an algorithm, or all of a collective");
  add_collective(*prove_command, options);
  prove_command->add_option("algorithm", options.algorithm, "its name; all if left out");
  add_parameters(*prove_command, options);
  prove_command->add_option("--to", options.to_ranks, "every number of ranks from --ranks to this")
      ->check(CLI::Range(1, 4096));
  CLI11_PARSE(app, argc, argv);

  if (list_command->parsed()) return list();
  if (table_command->parsed()) return fmt::print("{}", selection_text()), 0;
  if (choose_command->parsed()) return choose(options);
  if (options.root >= options.ranks && !prove_command->parsed())
    return refuse(fmt::format("root {} is not one of {} ranks", options.root, options.ranks));
  return show_command->parsed() ? show(options) : prove(options);
}

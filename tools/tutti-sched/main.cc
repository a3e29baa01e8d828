// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-sched: looks at schedules without running them. Lists the algorithms and the selection table, says what would
// be chosen, prints or draws the steps of an algorithm, and proves them for the rank counts asked for.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "collectives/form.h"
#include "collectives/select.h"
#include "collectives/verify/verify.h"
#include "tutti-sched/drawing.h"

namespace {

using namespace tutti::collectives;
using tutti::sched::drawing;

struct Options {
  std::string collective = "allreduce", algorithm;
  std::int32_t ranks = 4, to_ranks = 0, rank = -1, root = 0, radix = 0, ranks_per_core = 1;
  std::uint64_t bytes = 8;
  bool in_place = false;

  Collective which() const {
    Collective found = Collective::allreduce;
    find_collective(collective, found);  // checked when it was read
    return found;
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
  for (const Algorithm &row : algorithms()) {
    std::string radices;
    for (const std::int32_t radix : row.radices)
      if (radix != 0) radices += fmt::format("{}{}", radices.empty() ? "  radix " : ", ", radix);
    // Where nothing is reduced, there is no order.
    const char *order = !form_of(row.collective).reduces || row.collective == Collective::barrier ? "-"
                        : row.keeps_rank_order                                                    ? "ordered"
                                                                                                  : "commutes";
    fmt::print("{:<20} {:<21} {:<9} {}{}\n{:52}{}\n", collective_name(row.collective), row.name, order, row.summary,
               radices, "", row.source);
  }
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

// The schedules of all ranks; empty after a refusal.
std::vector<Schedule> build_all(const Options &options) {
  const Algorithm *algorithm = find_algorithm(options.which(), options.algorithm);
  if (!algorithm) {
    refuse(fmt::format("{} has no algorithm '{}'; see tutti-sched list", options.collective, options.algorithm));
    return {};
  }
  Parameters parameters = parameters_of(options, *algorithm);
  if (!algorithm->supports(parameters)) {
    refuse(fmt::format("{} does not support these parameters", algorithm->name));
    return {};
  }
  std::vector<Schedule> schedules;
  for (parameters.rank = 0; parameters.rank < options.ranks; ++parameters.rank)
    schedules.push_back(algorithm->build(parameters));
  return schedules;
}

int show(const Options &options) {
  const std::vector<Schedule> schedules = build_all(options);
  if (schedules.empty()) return 2;
  for (std::int32_t rank = 0; rank < options.ranks; ++rank) {
    if (options.rank >= 0 && options.rank != rank) continue;
    const Schedule &schedule = schedules[rank];
    fmt::print("rank {}: {} blocks, {} scratch vectors\n", rank, schedule.blocks, schedule.scratch_vectors);
    for (const Step &step : schedule.steps) fmt::print("  {}\n", verify::step_text(step));
  }
  return 0;
}

int draw(const Options &options) {
  const std::vector<Schedule> schedules = build_all(options);
  if (schedules.empty()) return 2;
  const std::string title = fmt::format("{} {}, {} ranks", options.collective, options.algorithm, options.ranks);
  fmt::print("{}", drawing(title, schedules));
  return 0;
}

// One line for an algorithm: what was checked, after what was wrong with it.
void prove_one(const Options &options, std::int32_t last, const Algorithm &row, int &flaws, int &all_proofs) {
  int proofs = 0;
  for (Options at = options; at.ranks <= last; ++at.ranks) {
    const Parameters parameters = parameters_of(at, row);
    if (parameters.root >= parameters.ranks || !row.supports(parameters)) continue;
    const std::string flaw = verify::verify(row, parameters);
    if (!flaw.empty()) fmt::print("{}\n", flaw);
    flaws += flaw.empty() ? 0 : 1;
    ++proofs;
  }
  fmt::print("{} {}: {} rank counts checked\n", collective_name(row.collective), row.name, proofs);
  all_proofs += proofs;
}

int prove(const Options &options) {
  const std::vector<const Algorithm *> rows = chosen(options);
  if (rows.empty())
    return refuse(fmt::format("{} has no algorithm '{}'; see tutti-sched list", options.collective, options.algorithm));
  int flaws = 0, proofs = 0;
  for (const Algorithm *row : rows) prove_one(options, std::max(options.ranks, options.to_ranks), *row, flaws, proofs);
  if (proofs == 0) return refuse("nothing to prove: no algorithm supports these parameters");
  return flaws == 0 ? 0 : 1;
}

// Everything: every collective and radix, in place and not, first and last root.
int verify_all(const Options &options) {
  int flaws = 0, proofs = 0;
  for (const Algorithm &row : algorithms())
    for (const std::int32_t radix : row.radices)
      for (const bool in_place : {false, true})
        for (const bool last_root : {false, true}) {
          if (last_root && !form_of(row.collective).rooted) continue;
          for (std::int32_t ranks = 1; ranks <= options.to_ranks; ++ranks) {
            const Parameters parameters{.collective = row.collective,
                                        .ranks = ranks,
                                        .root = last_root ? ranks - 1 : 0,
                                        .in_place = in_place,
                                        .radix = radix};
            if (!row.supports(parameters)) continue;
            const std::string flaw = verify::verify(row, parameters);
            if (!flaw.empty()) fmt::print("{}\n", flaw);
            flaws += flaw.empty() ? 0 : 1;
            ++proofs;
          }
        }
  fmt::print("{} algorithms, 1 to {} ranks: {} proofs, {} flaws\n", algorithms().size(), options.to_ranks, proofs,
             flaws);
  return flaws == 0 ? 0 : 1;
}

void add_parameters(CLI::App &command, Options &options) {
  command.add_option("-n,--ranks", options.ranks, "number of ranks")->check(CLI::Range(1, 4096))->capture_default_str();
  command.add_option("--root", options.root, "root, of collectives that have one")->check(CLI::NonNegativeNumber);
  command.add_option("--radix", options.radix, "radix, of algorithms that have one")->check(CLI::Range(2, 4096));
  command.add_flag("--in-place", options.in_place, "input and output are one buffer");
}

void add_collective(CLI::App &command, Options &options) {
  std::vector<std::string> names;
  for (int number = 0; number < kCollectives; ++number)
    names.emplace_back(collective_name(static_cast<Collective>(number)));
  command.add_option("collective", options.collective, collective_names())->required()->check(CLI::IsMember(names));
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
  choose_command->add_option("-b,--bytes", options.bytes, "of the whole vector, all ranks' blocks of it")
      ->transform(CLI::AsSizeValue(false));
  CLI::App *show_command = app.add_subcommand("show", "the steps of an algorithm");
  add_collective(*show_command, options);
  show_command->add_option("algorithm", options.algorithm, "its name")->required();
  add_parameters(*show_command, options);
  show_command->add_option("--rank", options.rank, "only this rank's")->check(CLI::NonNegativeNumber);
  CLI::App *draw_command = app.add_subcommand("draw", "a schedule over ranks and rounds, as SVG");
  add_collective(*draw_command, options);
  draw_command->add_option("algorithm", options.algorithm, "its name")->required();
  add_parameters(*draw_command, options);
  CLI::App *verify_command =
      app.add_subcommand("verify", "prove all algorithms, with all radices, in place and not, first and last root");
  verify_command->add_option("--max-ranks", options.to_ranks, "every number of ranks up to this")
      ->check(CLI::Range(1, 4096))
      ->required();
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
  if (verify_command->parsed()) return verify_all(options);
  if (options.root >= options.ranks && !prove_command->parsed())
    return refuse(fmt::format("root {} is not one of {} ranks", options.root, options.ranks));
  if (draw_command->parsed()) return draw(options);
  return show_command->parsed() ? show(options) : prove(options);
}

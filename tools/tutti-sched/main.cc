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
#include "collectives/hosts.h"
#include "collectives/select.h"
#include "collectives/verify/verify.h"
#include "tutti-sched/cost.h"
#include "tutti-sched/drawing.h"

namespace {

using namespace tutti::collectives;
using tutti::sched::drawing;

struct Options {
  std::string collective = "allreduce", algorithm;
  std::int32_t ranks = 4, to_ranks = 0, rank = -1, root = 0, radix = 0, ranks_per_core = 1;
  std::int32_t ranks_per_host = 1;
  std::vector<std::int32_t> hosts = {};  // that follows from it
  const Variant *variant = nullptr;      // that `algorithm` names; null: all
  std::uint64_t bytes = 8;
  bool in_place = false;

  // Hosts of so many ranks that follow one another.
  void lay_out() {
    hosts.clear();
    for (std::int32_t number = 0; ranks_per_host > 1 && number < ranks; ++number)
      hosts.push_back(number / ranks_per_host);
  }
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
    if (row.collective == options.which() && (options.variant == nullptr || options.variant->algorithm == &row))
      rows.push_back(&row);
  return rows;
}

Parameters parameters_of(const Options &options, const Algorithm &algorithm) {
  const Variant named = options.variant != nullptr ? *options.variant : Variant{};
  const std::int32_t radix = named.radix != 0 ? named.radix : options.radix;
  return {.collective = algorithm.collective,
          .ranks = options.ranks,
          .root = options.root,
          .in_place = options.in_place,
          .radix = radix != 0 ? radix : algorithm.radices.front(),
          .hosts = options.hosts,
          .skips = options.variant != nullptr ? options.variant->skips : std::span<const std::int32_t>()};
}

int list() {
  for (const Algorithm &row : algorithms()) {
    std::string radices;
    for (const std::int32_t radix : row.radices)
      if (radix != 0)
        radices += radices.empty() ? fmt::format("  {} {}", row.radix_name, radix) : fmt::format(", {}", radix);
    if (row.takes_skips) radices += ", or skips 1-2-...";
    // Where nothing is reduced, there is no order.
    const char *order = !form_of(row.collective).reduces || row.collective == Collective::barrier ? "-"
                        : row.keeps_rank_order                                                    ? "ordered"
                                                                                                  : "commutes";
    fmt::print("{:<20} {:<21} {:<9} {}{}\n{:52}{}\n", collective_name(row.collective), row.name, order, row.summary,
               radices, "", row.source);
  }
  return 0;
}

int cost(const Options &options, tutti::sched::CostQuestion question) {
  question.collective = options.which();
  question.variant = options.variant;
  question.ranks = options.ranks;
  question.root = options.root;
  question.in_place = options.in_place;
  question.radix = options.radix;
  question.bytes = options.bytes;
  question.ranks_per_host = options.ranks_per_host;
  const tutti::Result<std::string> text = tutti::sched::cost_text(question);
  if (!text) return refuse(text.error().text);
  fmt::print("{}", *text);
  return 0;
}

int choose(const Options &options) {
  // Without an override nothing is refused.
  const Choice choice = *select({.collective = options.which(),
                                 .ranks = options.ranks,
                                 .ranks_per_core = options.ranks_per_core,
                                 .bytes = options.bytes,
                                 .hosts = options.hosts,
                                 .host_count = count_hosts(options.hosts)},
                                {});
  fmt::print("{}{}\n", choice.algorithm->name, choice.radix != 0 ? fmt::format(" radix {}", choice.radix) : "");
  return 0;
}

// The schedules of all ranks; empty after a refusal.
std::vector<Schedule> build_all(const Options &options) {
  const Algorithm *algorithm = options.variant->algorithm;
  Parameters parameters = parameters_of(options, *algorithm);
  if (!algorithm->supports(parameters)) {
    const std::string fault = skips_fault(parameters.skips, parameters.ranks);
    refuse(fmt::format("{} does not support these parameters{}{}", algorithm->name, fault.empty() ? "" : ": ", fault));
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
    at.lay_out();
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

void add_parameters(CLI::App &command, Options &options, std::int32_t most_ranks = 4096) {
  command.add_option("-n,--ranks", options.ranks, "number of ranks")
      ->check(CLI::Range(1, most_ranks))
      ->capture_default_str();
  command.add_option("--root", options.root, "root, of collectives that have one")->check(CLI::NonNegativeNumber);
  command.add_option("--radix", options.radix, "radix, of algorithms that have one")->check(CLI::Range(1, most_ranks));
  command.add_option("--ranks-per-host", options.ranks_per_host, "consecutive ranks that share a host")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_flag("--in-place", options.in_place, "input and output are one buffer");
}

void add_collective(CLI::App &command, Options &options) {
  std::vector<std::string> names;
  for (int number = 0; number < kCollectives; ++number)
    names.emplace_back(collective_name(static_cast<Collective>(number)));
  command.add_option("collective", options.collective, collective_names())->required()->check(CLI::IsMember(names));
}

CLI::App *add_cost(CLI::App &app, Options &options, tutti::sched::CostQuestion &question) {
  CLI::App *command = app.add_subcommand("cost", "modelled time and volume, beside the lower bound");
  add_collective(*command, options);
  command->add_option("algorithm", options.algorithm, "its name, as in ring or circulant:radix=4; all if left out");
  add_parameters(*command, options, 1 << 20);
  const auto number = [&](const char *name, double &value, const char *text, const CLI::Validator &valid) {
    command->add_option(name, value, text)->check(valid)->capture_default_str();
  };
  command->add_option("-b,--bytes", options.bytes, "of the whole vector, all ranks' blocks of it")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--element", question.element_bytes, "bytes of an element")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  number("--latency", question.latency_us, "us from the post of a small message to its arrival",
         CLI::NonNegativeNumber);
  number("--gap", question.gap_us, "us between two messages of a port", CLI::NonNegativeNumber);
  number("--bandwidth", question.gigabytes_per_s, "GB/s in each direction", CLI::Range(1e-3, 1e6));
  number("--reduction", question.reduced_gigabytes_per_s, "GB/s that a rank reduces or copies; 0: takes no time",
         CLI::NonNegativeNumber);
  number("--host-latency", question.host_latency_us, "the same inside a host", CLI::NonNegativeNumber);
  number("--host-gap", question.host_gap_us, "the same inside a host", CLI::NonNegativeNumber);
  number("--host-bandwidth", question.host_gigabytes_per_s, "the same inside a host", CLI::Range(1e-3, 1e6));
  command->add_option("--json", question.json, "also write the results to this file");
  return command;
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
  choose_command->add_option("--ranks-per-host", options.ranks_per_host, "consecutive ranks that share a host")
      ->check(CLI::PositiveNumber);
  choose_command->add_option("--ranks-per-core", options.ranks_per_core, "on the most crowded host")
      ->check(CLI::PositiveNumber);
  choose_command->add_option("-b,--bytes", options.bytes, "of the whole vector, all ranks' blocks of it")
      ->transform(CLI::AsSizeValue(false));
  CLI::App *show_command = app.add_subcommand("show", "the steps of an algorithm");
  add_collective(*show_command, options);
  show_command->add_option("algorithm", options.algorithm, "its name, as in ring or circulant:skips=1-2-5-9")
      ->required();
  add_parameters(*show_command, options);
  show_command->add_option("--rank", options.rank, "only this rank's")->check(CLI::NonNegativeNumber);
  CLI::App *draw_command = app.add_subcommand("draw", "a schedule over ranks and rounds, as SVG");
  add_collective(*draw_command, options);
  draw_command->add_option("algorithm", options.algorithm, "its name, as in ring or circulant:skips=1-2-5-9")
      ->required();
  add_parameters(*draw_command, options);
  CLI::App *verify_command =
      app.add_subcommand("verify", "prove all algorithms, with all radices, in place and not, first and last root");
  verify_command->add_option("--max-ranks", options.to_ranks, "every number of ranks up to this")
      ->check(CLI::Range(1, 4096))
      ->required();
  CLI::App *prove_command = app.add_subcommand("prove", "verify an algorithm, or all of a collective");
  add_collective(*prove_command, options);
  prove_command->add_option("algorithm", options.algorithm,
                            "its name, as in ring or circulant:radix=4; all if left out");
  add_parameters(*prove_command, options);
  prove_command->add_option("--to", options.to_ranks, "every number of ranks from --ranks to this")
      ->check(CLI::Range(1, 4096));
  tutti::sched::CostQuestion question;
  CLI::App *cost_command = add_cost(app, options, question);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help
    return refuse(fmt::format("{}; see tutti-sched --help", error.what()));
  }

  options.lay_out();
  if (list_command->parsed()) return list();
  if (table_command->parsed()) return fmt::print("{}", selection_text()), 0;
  if (choose_command->parsed()) return choose(options);
  if (verify_command->parsed()) return verify_all(options);
  if (!options.algorithm.empty()) {
    const tutti::Result<const Variant *> variant = variant_of(options.which(), options.algorithm);
    if (!variant) return refuse(variant.error().text + "; see tutti-sched list");
    options.variant = *variant;
  }
  if (options.root >= options.ranks && !prove_command->parsed())
    return refuse(fmt::format("root {} is not one of {} ranks", options.root, options.ranks));
  if (draw_command->parsed()) return draw(options);
  if (cost_command->parsed()) return cost(options, question);
  return show_command->parsed() ? show(options) : prove(options);
}

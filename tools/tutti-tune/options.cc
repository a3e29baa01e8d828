// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-tune/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <optional>

#include "base/config.h"
#include "tutti/tutti.h"

namespace tutti::tune {
namespace {

using enum collectives::Collective;
using perf::Goodbye;

// Those that programs spend their time in, and that have algorithms to choose from.
const std::vector<collectives::Collective> kUsual = {allreduce, broadcast, reduce, reduce_scatter_block,
                                                     allgather, alltoall,  barrier};

// The choice between several algorithms goes by a size that all ranks know.
bool can_be_tuned(collectives::Collective collective) {
  const auto &all = collectives::algorithms();
  const bool several = std::ranges::count(all, collective, &collectives::Algorithm::collective) > 1 ||
                       collective == barrier;  // which has several radices
  return several && collective != alltoallv;
}

std::string tunable_names() {
  std::string names;
  for (int i = 0; i < collectives::kCollectives; ++i)
    if (const auto collective = static_cast<collectives::Collective>(i); can_be_tuned(collective))
      names += (names.empty() ? "" : ", ") + std::string(collective_name(collective));
  return names;
}

struct Typed {
  std::vector<std::string> collectives;
  std::string min = "8", max = "4M";
  std::int64_t factor = 2;
  double percent = 5;
};

Goodbye usage(std::string text) { return {perf::kExitUsage, "tutti-tune: " + std::move(text)}; }

void declare(CLI::App &app, Typed &typed, Options &options) {
  app.add_option("COLLECTIVE", typed.collectives,
                 "What to measure, of " + tunable_names() +
                     " (default allreduce, broadcast, reduce, "
                     "reduce_scatter_block, allgather, alltoall, barrier)");
  app.add_option("-b,--minbytes", typed.min, "Smallest size of the whole vector; sizes accept K, M, G (default 8)");
  app.add_option("-e,--maxbytes", typed.max, "Largest size (default 4M)");
  app.add_option("-f,--stepfactor", typed.factor, "From one size to the next (default 2)");
  app.add_option("-t,--seconds", options.seconds, "How long it may take, about (default 90)");
  app.add_option("-g,--gain", typed.percent, "The least gain in percent that is worth a change (default 5)");
  app.add_option("-o,--output", options.output,
                 "The file, whose other machines and collectives stay (default: what TUTTI_TUNING names, or "
                 "tutti/tuning in $XDG_CONFIG_HOME or ~/.config)");
  app.add_flag("--dry-run", options.dry, "Write nothing");
  app.set_version_flag("--version", std::string("tutti-tune ") + tutti_version());
}

std::optional<Goodbye> understand_sizes(const Typed &typed, Options &options) {
  const std::optional<std::int64_t> min = parse_bytes(typed.min), max = parse_bytes(typed.max);
  if (!min || *min < 1)
    return usage(fmt::format("-b {} is not a size: digits and an optional K, M or G, from 1 up", typed.min));
  if (!max) return usage(fmt::format("-e {} is not a size: digits and an optional K, M or G", typed.max));
  if (*min > *max)
    return usage(fmt::format("-b {} is more than -e {}: give a smaller -b or a larger -e", typed.min, typed.max));
  if (typed.factor < 2) return usage(fmt::format("-f {} leads nowhere: it takes 2 or more", typed.factor));
  for (std::int64_t bytes = *min; bytes <= *max; bytes *= typed.factor) {
    options.sizes.push_back(static_cast<std::size_t>(bytes));
    if (bytes > *max / typed.factor) break;  // also keeps the product from overflowing
  }
  return std::nullopt;
}

std::optional<Goodbye> understand(const Typed &typed, Options &options) {
  for (const std::string &name : typed.collectives) {
    collectives::Collective collective = allreduce;
    if (!collectives::find_collective(name, collective))
      return usage(fmt::format("there is no collective '{}': it takes {}", name, tunable_names()));
    if (!can_be_tuned(collective))
      return usage(fmt::format("{} has nothing to choose between by size: it takes {}", name, tunable_names()));
    if (std::ranges::find(options.which, collective) == options.which.end()) options.which.push_back(collective);
  }
  if (options.which.empty()) options.which = kUsual;
  if (!(options.seconds > 0)) return usage(fmt::format("-t {}: it takes seconds, more than 0", options.seconds));
  if (!(typed.percent >= 0 && typed.percent < 100))
    return usage(fmt::format("-g {}: it takes a percentage from 0 to below 100", typed.percent));
  options.least_gain = typed.percent / 100;
  return understand_sizes(typed, options);
}

}  // namespace

std::variant<Options, Goodbye> parse_options(int argc, const char *const *argv) {
  CLI::App app{
      "Measures algorithms on this machine, among the ranks it is started with, and writes down where others "
      "than the library's choice are faster: mpirun -n 4 tutti-tune, or tutti-run -n 4 tutti-tune",
      "tutti-tune"};
  Typed typed;
  Options options;
  declare(app, typed, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    return Goodbye{0, app.help()};
  } catch (const CLI::CallForVersion &version) {
    return Goodbye{0, std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError &error) {
    return usage(fmt::format("{}; see tutti-tune --help", error.what()));
  }
  if (std::optional<Goodbye> goodbye = understand(typed, options)) return *std::move(goodbye);
  return options;
}

}  // namespace tutti::tune

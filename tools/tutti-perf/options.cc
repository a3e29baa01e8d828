// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <optional>

#include "base/config.h"

namespace tutti::perf {
namespace {

struct Typed {
  std::string collective, min = "8", max = "16M", type = "float", op = "sum";
  std::int64_t factor = 2, iterations = 0, warm_up = 5;
  int check = 1;
  std::vector<std::string> sizes, versus;
};

Goodbye usage(std::string text) { return {kExitUsage, "tutti-perf: " + std::move(text)}; }

void declare(CLI::App &app, Typed &typed, Options &options) {
  app.add_option("COLLECTIVE", typed.collective, "What to measure: " + names_of(collectives()))->required();
  app.add_option("-b,--minbytes", typed.min, "Smallest size; sizes accept K, M, G (default 8)");
  app.add_option("-e,--maxbytes", typed.max, "Largest size (default 16M)");
  app.add_option("-f,--stepfactor", typed.factor, "From one size to the next (default 2)");
  app.add_option("--sizes", typed.sizes,
                 "These sizes in this order, with commas between, instead of those of -b, -e and -f")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("-n,--iters", typed.iterations, "Timed calls of a size (default 0: chosen by how long one takes)");
  app.add_option("-w,--warmup_iters", typed.warm_up, "Calls before the timed ones (default 5)");
  app.add_option("-c,--check", typed.check, "1: compare every element on every rank (default), 0: do not");
  app.add_option("-d,--datatype", typed.type, "Element type: " + names_of(element_types()) + " (default float)");
  app.add_option("-o,--op", typed.op, "Operator: " + names_of(operators()) + " (default sum)");
  app.add_option("-r,--root", options.root, "Root rank (default 0)");
  app.add_option("--algorithm", options.algorithm, "Use this algorithm at every size (default: the library chooses)");
  app.add_flag("--in-place", options.in_place, "Input and output are one buffer");
  app.add_option("--json", options.json, "Also write the results to this file");
  app.add_option("--vs", typed.versus,
                 "Compare: mpi (the same calls made with MPI, alternating) or limit (what the machine allows, measured "
                 "in the same run); may be given twice")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.set_version_flag("--version", std::string("tutti-perf ") + tutti_version());
}

// min, min*factor, ... up to max, each rounded down to whole elements. An empty vector means the bounds make no sense.
std::vector<std::size_t> sizes_of(std::size_t min, std::size_t max, std::size_t factor, std::size_t element) {
  std::vector<std::size_t> sizes;
  const auto add = [&](std::size_t bytes) {
    bytes -= bytes % element;
    if (sizes.empty() || sizes.back() != bytes) sizes.push_back(bytes);
  };
  std::size_t bytes = min;
  if (bytes == 0) {  // an empty call is a point of its own; zero times the factor leads nowhere
    add(0);
    bytes = element;
  }
  while (bytes <= max) {
    add(bytes);
    if (bytes > max / factor) break;  // also keeps the product from overflowing
    bytes *= factor;
  }
  return sizes;
}

// The sizes that were listed, as they stand there.
std::optional<Goodbye> understand_list(const Typed &typed, Options &options) {
  const auto element = static_cast<std::int64_t>(options.type->bytes);
  for (const std::string &text : typed.sizes) {
    const std::optional<std::int64_t> bytes = parse_bytes(text);
    if (!bytes) return usage(fmt::format("--sizes: '{}' is not a size: digits and an optional K, M or G", text));
    if (*bytes % element != 0)
      return usage(
          fmt::format("--sizes: {} bytes are no whole number of {} ({} bytes)", text, options.type->name, element));
    options.sizes.push_back(static_cast<std::size_t>(*bytes));
  }
  return std::nullopt;
}

std::optional<Goodbye> understand_sizes(const Typed &typed, Options &options) {
  if (!typed.sizes.empty()) return understand_list(typed, options);
  const std::optional<std::int64_t> min = parse_bytes(typed.min), max = parse_bytes(typed.max);
  if (!min) return usage(fmt::format("-b {} is not a size: digits and an optional K, M or G", typed.min));
  if (!max) return usage(fmt::format("-e {} is not a size: digits and an optional K, M or G", typed.max));
  if (*min > *max)
    return usage(fmt::format("-b {} is more than -e {}: give a smaller -b or a larger -e", typed.min, typed.max));
  if (typed.factor < 2) return usage(fmt::format("-f {} leads nowhere: it takes 2 or more", typed.factor));
  const auto element = static_cast<std::int64_t>(options.type->bytes);
  if (*max > 0 && *max < element)
    return usage(fmt::format("-e {} is less than one {} ({} bytes)", typed.max, options.type->name, element));
  for (const std::int64_t bytes : {*min, *max})
    if (bytes % element != 0)
      options.notes.push_back(fmt::format("{} bytes is not a multiple of {} ({} bytes): rounded down to {}", bytes,
                                          options.type->name, element, bytes - bytes % element));
  options.sizes = sizes_of(static_cast<std::size_t>(*min), static_cast<std::size_t>(*max),
                           static_cast<std::size_t>(typed.factor), options.type->bytes);
  return std::nullopt;
}

std::optional<Goodbye> understand(const Typed &typed, Options &options) {
  options.collective = find_row(collectives(), typed.collective);
  if (options.collective == nullptr)
    return usage(fmt::format("there is no collective '{}': it takes {}", typed.collective, names_of(collectives())));
  options.type = find_row(element_types(), typed.type);
  if (options.type == nullptr)
    return usage(fmt::format("there is no type '{}': -d takes {}", typed.type, names_of(element_types())));
  options.op = find_row(operators(), typed.op);
  if (options.op == nullptr)
    return usage(fmt::format("there is no operator '{}': -o takes {}", typed.op, names_of(operators())));
  if (options.collective->reduces && !takes(*options.type, *options.op))
    return usage(fmt::format("-o {} is not defined for -d {}, which takes {}", options.op->name, options.type->name,
                             operators_of(*options.type)));
  if (!options.collective->takes(*options.op))
    return usage(fmt::format("-o {} is not defined for a {}: it is a mean over all ranks", options.op->name,
                             options.collective->name));
  if (typed.check != 0 && typed.check != 1) return usage(fmt::format("-c {}: it takes 0 or 1", typed.check));
  if (typed.iterations < 0 || typed.warm_up < 0) return usage("-n and -w take numbers from 0 up");
  for (const std::string &versus : typed.versus) {
    if (versus == "mpi") options.versus_mpi = true;
    else if (versus == "limit") options.versus_limit = true;
    else return usage(fmt::format("--vs {}: it takes mpi or limit", versus));
  }
  options.check = typed.check == 1;
  options.iterations = static_cast<std::size_t>(typed.iterations);
  options.warm_up = static_cast<std::size_t>(typed.warm_up);
  using Places = Collective::Places;
  if (options.in_place && options.collective->places == Places::two)
    return usage(fmt::format("--in-place: a {} has nothing in place that all ranks could measure", typed.collective));
  options.in_place = options.in_place || options.collective->places == Places::one;
  if (options.collective->outcome == Outcome::nothing) {
    options.sizes = {0};
    return std::nullopt;
  }
  return understand_sizes(typed, options);
}

}  // namespace

std::variant<Options, Goodbye> parse_options(int argc, const char *const *argv) {
  CLI::App app{"Measures a collective of Tutti: mpirun -n 4 tutti-perf allreduce, or tutti-run -n 4 tutti-perf ...",
               "tutti-perf"};
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
    return usage(fmt::format("{}; see tutti-perf --help", error.what()));
  }
  if (std::optional<Goodbye> goodbye = understand(typed, options)) return *std::move(goodbye);
  return options;
}

}  // namespace tutti::perf

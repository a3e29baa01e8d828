// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-sched/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "collectives/cost/bound.h"
#include "collectives/cost/estimate.h"
#include "collectives/hosts.h"
#include "collectives/select.h"

namespace tutti::sched {
namespace {

using namespace collectives;
using Json = nlohmann::ordered_json;

cost::Machine machine_of(const CostQuestion &question) {
  constexpr double us = 1e-6, GB = 1e9;
  return {.network = {question.latency_us * us, question.gap_us * us, question.gigabytes_per_s * GB},
          .host = {question.host_latency_us * us, question.host_gap_us * us, question.host_gigabytes_per_s * GB},
          .reduced_per_s = question.reduced_gigabytes_per_s * GB};
}

// Hosts of so many consecutive ranks.
std::vector<std::int32_t> hosts_of(const CostQuestion &question) {
  std::vector<std::int32_t> hosts;
  for (std::int32_t rank = 0; question.ranks_per_host > 1 && rank < question.ranks; ++rank)
    hosts.push_back(rank / question.ranks_per_host);
  return hosts;
}

std::string bytes_text(double bytes) {
  constexpr double k = 1024;
  if (bytes < 10 * k) return fmt::format("{:.0f}", bytes);
  if (bytes < 10 * k * k) return fmt::format("{:.1f}K", bytes / k);
  if (bytes < 10 * k * k * k) return fmt::format("{:.1f}M", bytes / k / k);
  return fmt::format("{:.1f}G", bytes / k / k / k);
}

struct Line {
  const Algorithm *algorithm;
  std::int32_t radix;
  bool chosen;
  cost::Estimate estimate;
};

std::string basis(const cost::Estimate &estimate) {
  if (estimate.all_ranks) return "all ranks";
  return fmt::format("rank 0 for all, {} counted", estimate.sampled);
}

Json json_of(const Line &line) {
  Json one = {{"algorithm", line.algorithm->name}};
  if (line.radix != 0) one["radix"] = line.radix;
  one["chosen"] = line.chosen;
  if (!line.estimate.refusal.empty()) {
    one["not_modelled"] = line.estimate.refusal;
    return one;
  }
  one["rounds"] = line.estimate.rounds;
  one["messages"] = line.estimate.messages;
  one["bytes"] = line.estimate.bytes;
  one["bytes_of_all_ranks"] = line.estimate.all_bytes;
  one["time_us"] = line.estimate.seconds * 1e6;
  one["ranks_run"] = line.estimate.all_ranks ? "all" : "rank 0 for all";
  one["ranks_counted"] = line.estimate.sampled;
  return one;
}

Result<> write_json(const CostQuestion &question, const cost::Bound &bound, const std::vector<Line> &lines) {
  Json all = {{"collective", collective_name(question.collective)},
              {"ranks", question.ranks},
              {"ranks_per_host", question.ranks_per_host},
              {"bytes", question.bytes},
              {"element_bytes", question.element_bytes},
              {"latency_us", question.latency_us},
              {"gap_us", question.gap_us},
              {"bandwidth_GBps", question.gigabytes_per_s},
              {"reduction_GBps", question.reduced_gigabytes_per_s},
              {"host_latency_us", question.host_latency_us},
              {"host_gap_us", question.host_gap_us},
              {"host_bandwidth_GBps", question.host_gigabytes_per_s}};
  all["bound"] = {{"latency_us", bound.latency_s * 1e6},
                  {"bandwidth_us", bound.bandwidth_s * 1e6},
                  {"reduction_us", bound.reduction_s * 1e6},
                  {"time_us", bound.seconds() * 1e6}};
  all["algorithms"] = Json::array();
  for (const Line &line : lines) all["algorithms"].push_back(json_of(line));
  std::ofstream file(question.json);
  file << all.dump(2) << '\n';
  file.close();
  if (!file) return fail(Code::system, "cannot write {}: {}", question.json, std::strerror(errno));
  return {};
}

std::string table(const CostQuestion &question, const cost::Bound &bound, const std::vector<Line> &lines) {
  std::string text = fmt::format(
      "{}, {} ranks{}, {} bytes: at least {:.2f} us (latency {:.2f}, bandwidth {:.2f}, reduction {:.2f})\n",
      collective_name(question.collective), question.ranks,
      question.ranks_per_host > 1 ? fmt::format(" ({} a host)", question.ranks_per_host) : "", question.bytes,
      bound.seconds() * 1e6, bound.latency_s * 1e6, bound.bandwidth_s * 1e6, bound.reduction_s * 1e6);
  text += fmt::format("  {:<22} {:>5} {:>7} {:>9} {:>9} {:>12} {:>7}  {}\n", "algorithm", "radix", "rounds", "messages",
                      "bytes", "us", "/bound", "run");
  for (const Line &line : lines) {
    text += fmt::format("{} {:<22} {:>5} ", line.chosen ? '*' : ' ', line.algorithm->name,
                        line.radix != 0 ? fmt::format("{}", line.radix) : "-");
    const cost::Estimate &estimate = line.estimate;
    if (!estimate.refusal.empty()) {
      text += fmt::format("not modelled: {}\n", estimate.refusal);
      continue;
    }
    text += fmt::format("{:>7} {:>9} {:>9} {:>12.2f} {:>7}  {}\n", estimate.rounds, estimate.messages,
                        bytes_text(estimate.bytes), estimate.seconds * 1e6,
                        bound.seconds() > 0 ? fmt::format("{:.2f}", estimate.seconds / bound.seconds()) : "-",
                        basis(estimate));
  }
  text +=
      "rounds: messages of which each needs the one before; messages, bytes: the most that one rank sends; *: chosen\n";
  const bool mirrored = std::ranges::any_of(
      lines, [](const Line &line) { return line.estimate.refusal.empty() && !line.estimate.all_ranks; });
  if (mirrored)
    text += "rank 0 for all: all do alike and there are many; up to a third less than a run of all of them gives\n";
  return text;
}

}  // namespace

Result<std::string> cost_text(const CostQuestion &question) {
  const std::vector<std::int32_t> hosts = hosts_of(question);
  const cost::Machine machine = machine_of(question);
  Parameters parameters{.collective = question.collective,
                        .ranks = question.ranks,
                        .root = question.root,
                        .in_place = question.in_place,
                        .hosts = hosts};
  // Without an override nothing is refused.
  const Choice choice = *select({.collective = question.collective,
                                 .ranks = question.ranks,
                                 .bytes = question.bytes,
                                 .hosts = hosts,
                                 .host_count = count_hosts(hosts)},
                                {});
  std::vector<Line> lines;
  for (const Algorithm &algorithm : algorithms()) {
    if (algorithm.collective != question.collective) continue;
    if (question.variant != nullptr && question.variant->algorithm != &algorithm) continue;
    std::vector<std::int32_t> radices = algorithm.radices;
    if (question.radix != 0 && radices.front() != 0) radices = {question.radix};
    if (question.variant != nullptr) {
      parameters.skips = question.variant->skips;
      if (question.variant->radix != 0) radices = {question.variant->radix};
      if (!parameters.skips.empty()) radices = {0};
    }
    for (const std::int32_t radix : radices) {
      parameters.radix = radix;
      Line line{.algorithm = &algorithm,
                .radix = radix,
                .chosen = choice.algorithm == &algorithm && choice.radix == radix,
                .estimate = {.refusal = "it cannot run with these parameters"}};
      if (algorithm.supports(parameters))
        line.estimate = cost::estimate(algorithm, parameters, question.bytes, question.element_bytes, machine);
      lines.push_back(std::move(line));
    }
  }
  const cost::Bound bound = cost::bound(parameters, double(question.bytes), machine);
  if (!question.json.empty()) TUTTI_TRY(write_json(question, bound, lines));
  return table(question, bound, lines);
}

}  // namespace tutti::sched

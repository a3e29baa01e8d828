// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-tune/report.h"

#include <fmt/format.h>

namespace tutti::tune {
namespace {

std::string text_of(const Contestant &contestant) {
  return collectives::algorithm_text(*contestant.algorithm, contestant.radix);
}

constexpr std::string_view kLine = "{:<21} {:>9} {:>6}  {:<30} {:>10}  {:<30} {:>10} {:>7}\n";

}  // namespace

std::string header_text(const Circumstances &circumstances, const std::string &file) {
  std::string text =
      fmt::format("# {}\n# {} ranks on {} host{}, {} per core; {}\n", circumstances.machine, circumstances.ranks,
                  circumstances.host_count, circumstances.host_count == 1 ? "" : "s", circumstances.ranks_per_core,
                  file.empty() ? "nothing is written" : "for " + file);
  text += "# time: median of batches, slowest rank; bytes: of the whole vector\n#\n";
  text += fmt::format(fmt::runtime(kLine), "# collective", "bytes", "tried", "today's choice", "us", "tuned choice",
                      "us", "gain");
  return text;
}

std::string points_text(collectives::Collective collective, std::span<const Point> points,
                        std::span<const Change> changes) {
  std::string text;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Contestant &today = points[i].today, &chosen = chosen_at(points, i, changes);
    const bool kept = chosen.same(today);
    text += fmt::format(fmt::runtime(kLine), fmt::format("  {}", collective_name(collective)), points[i].bytes,
                        points[i].tried, text_of(today), fmt::format("{:.2f}", today.figures.median_us),
                        kept ? "-" : text_of(chosen), kept ? "-" : fmt::format("{:.2f}", chosen.figures.median_us),
                        kept ? "-" : fmt::format("{:.0f} %", 100 * gain(today.figures, chosen.figures)));
  }
  return text;
}

std::string remark_text(std::span<const Point> points, const Change &change) {
  std::string text;
  for (const std::size_t i : {change.first, change.last}) {
    const Contestant &chosen = chosen_at(points, i, std::span(&change, 1));
    text += fmt::format("{}{:.2f} us instead of {:.2f} at {}", text.empty() ? "" : ", ", chosen.figures.median_us,
                        points[i].today.figures.median_us, points[i].bytes);
    if (change.first == change.last) break;
  }
  return text;
}

}  // namespace tutti::tune

// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-tune/verdict.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tutti::tune {
namespace {

// Below that all sizes are one message of a cache line or two, whatever the algorithm.
constexpr std::uint64_t kTinyBytes = 64;

// Between order statistics, by linear interpolation.
double quantile(const std::vector<double> &sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

// As good as the best of the point, or nearly so; null if it is not.
const Contestant *near_best(const Point &point, const Contestant &wanted, double close) {
  for (const Contestant &one : point.better) {
    if (one.figures.median_us > point.better.front().figures.median_us * (1 + close)) return nullptr;
    if (one.same(wanted)) return &one;
  }
  return nullptr;
}

struct Run {
  const Contestant *contestant = nullptr;
  std::size_t points = 0;
  double gains = 0;
};

// The contestant that stays near the best for longest from a point on; of equally long ones that which gains most.
Run longest_run(std::span<const Point> points, std::size_t from, double close) {
  Run longest;
  for (const Contestant &candidate : points[from].better) {
    if (near_best(points[from], candidate, close) == nullptr) break;
    Run run{&candidate};
    for (std::size_t i = from; i < points.size(); ++i) {
      const Contestant *there = near_best(points[i], candidate, close);
      if (there == nullptr) break;
      ++run.points;
      run.gains += gain(points[i].today.figures, there->figures);
    }
    if (run.points > longest.points || (run.points == longest.points && run.gains > longest.gains)) longest = run;
  }
  return longest;
}

std::uint64_t between(std::uint64_t low, std::uint64_t high) {
  return static_cast<std::uint64_t>(std::sqrt(static_cast<double>(low) * static_cast<double>(high)));
}

}  // namespace

Figures figures_of(std::vector<double> samples_us) {
  TUTTI_CHECK(!samples_us.empty(), "a contestant was not measured");
  std::ranges::sort(samples_us);
  return {.median_us = quantile(samples_us, 0.5),
          .low_us = quantile(samples_us, 0.25),
          .high_us = quantile(samples_us, 0.75)};
}

double gain(const Figures &figures, const Figures &other) {
  return figures.median_us > 0 ? 1 - other.median_us / figures.median_us : 0;
}

bool clearly_better(const Figures &figures, const Figures &other, double least_gain) {
  return gain(figures, other) >= least_gain && other.high_us < figures.low_us;
}

std::vector<Contestant> better_twice(std::span<const Contestant> first, std::span<const Contestant> second) {
  std::vector<Contestant> both;
  for (const Contestant &one : second)
    if (std::ranges::any_of(first, [&](const Contestant &other) { return other.same(one); })) both.push_back(one);
  return both;
}

std::vector<Change> changes_of(std::span<const Point> points, const Hysteresis &hysteresis) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < points.size();) {
    const Run run = longest_run(points, i, hysteresis.close);
    const std::size_t length = std::max<std::size_t>(run.points, 1);
    const bool alone = run.points == 1 && (i == 0 || points[i - 1].better.empty()) &&
                       (i + 1 == points.size() || points[i + 1].better.empty());
    if (run.points > 0 && (!alone || run.gains >= 2 * hysteresis.least_gain)) {
      const std::size_t last = i + length - 1;
      Change change{.first = i, .last = last, .algorithm = run.contestant->algorithm, .radix = run.contestant->radix};
      if (i > 0) change.min_bytes = between(points[i - 1].bytes, points[i].bytes) + 1;
      else change.min_bytes = points[i].bytes <= kTinyBytes ? 0 : points[i].bytes;
      change.max_bytes =
          last + 1 < points.size() ? between(points[last].bytes, points[last + 1].bytes) : points[last].bytes;
      changes.push_back(change);
    }
    i += length;
  }
  return changes;
}

const Contestant &chosen_at(std::span<const Point> points, std::size_t index, std::span<const Change> changes) {
  const Point &point = points[index];
  for (const Change &change : changes)
    if (change.first <= index && index <= change.last)
      for (const Contestant &one : point.better)
        if (one.algorithm == change.algorithm && one.radix == change.radix) return one;
  return point.today;
}

}  // namespace tutti::tune

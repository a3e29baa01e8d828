// SPDX-License-Identifier: BSD-3-Clause
//
// From times to rows: what is better than today's choice at a size, beyond the noise, and which sizes take one
// algorithm together. Pure.
//
// Invariant: nothing is changed for a gain that the noise could be: medians differ by the least gain, and the quartiles
// of the two do not overlap.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/tuning.h"

namespace tutti::tune {

struct Figures {
  double median_us = 0, low_us = 0, high_us = 0;  // and quartiles
};
Figures figures_of(std::vector<double> samples_us);

// By how much less time `other` takes than `figures`: 0.2 for four fifths of it.
double gain(const Figures &figures, const Figures &other);
bool clearly_better(const Figures &figures, const Figures &other, double least_gain);

struct Contestant {
  const collectives::Algorithm *algorithm = nullptr;
  std::int32_t radix = 0;
  Figures figures;
  bool same(const Contestant &other) const { return algorithm == other.algorithm && radix == other.radix; }
};

// What was found at one size.
struct Point {
  std::uint64_t bytes = 0;  // of the whole vector
  Contestant today;
  std::vector<Contestant> better;  // clearly, the best first
  std::size_t tried = 0;           // how many there were
  std::string wrong;               // who gave wrong results; else empty
};

// What was better both times; figures are those of the second.
std::vector<Contestant> better_twice(std::span<const Contestant> first, std::span<const Contestant> second);

// Points first to last, neighbours in `points`, take one algorithm from here on.
struct Change {
  std::size_t first = 0, last = 0;
  std::uint64_t min_bytes = 0, max_bytes = 0;
  const collectives::Algorithm *algorithm = nullptr;
  std::int32_t radix = 0;
};

struct Hysteresis {
  double least_gain = 0.05;
  double close = 0.03;  // what is so near to the best of a size may stand for it, so that ranges grow
};
// Of points that rise in size: as few ranges as there can be. A size that would stand alone between others that keep
// what they have needs twice the least gain. Bounds are between the sizes that were measured, by their geometric mean;
// beyond the last of them nothing changes, and below the first only within a cache line.
std::vector<Change> changes_of(std::span<const Point> points, const Hysteresis &hysteresis);

// What the point takes then: the change's contestant, or today's.
const Contestant &chosen_at(std::span<const Point> points, std::size_t index, std::span<const Change> changes);

}  // namespace tutti::tune

// SPDX-License-Identifier: BSD-3-Clause
//
// The k-nomial tree by distance from the root, written in base k: the parent has the lowest non-zero digit cleared, and
// a rank's subtree is the run of distances from its own on, as long as the place value of that digit.
#pragma once

#include "collectives/builder.h"

namespace tutti::collectives {

class Knomial {
 public:
  explicit Knomial(const Parameters &parameters)
      : ranks_(parameters.ranks),
        radix_(parameters.radix),
        root_(parameters.root),
        distance_(wrap(std::int64_t(parameters.rank) - parameters.root, parameters.ranks)) {
    while (place_ < ranks_ && distance_ % (place_ * radix_) == 0) place_ *= radix_;
  }

  std::int32_t distance() const { return distance_; }
  std::int32_t real(std::int64_t distance) const { return wrap(distance + root_, ranks_); }
  std::int64_t parent() const { return distance_ - distance_ / place_ % radix_ * place_; }
  // How many ranks the subtree of this rank has.
  std::uint32_t size() const { return size(distance_, place_); }

  // Calls use(distance, size) for each child, nearest and smallest first, or the other way round.
  template <class Use>
  void children(const Use &use) const {
    for (std::int64_t place = 1; place < place_; place *= radix_)
      for (std::int64_t child = distance_ + place; child < distance_ + place * radix_ && child < ranks_; child += place)
        use(child, size(child, place));
  }
  template <class Use>
  void children_largest_first(const Use &use) const {
    for (std::int64_t place = place_ / radix_; place > 0; place /= radix_)
      for (std::int64_t child = distance_ + place; child < distance_ + place * radix_ && child < ranks_; child += place)
        use(child, size(child, place));
  }

  // A run of distances [first, first + size) is one or two runs of real ranks, which meet at rank 0. Calls use(offset
  // into the run, real rank, length).
  template <class Use>
  void real_runs(std::int64_t first, std::uint32_t size, const Use &use) const {
    const auto rank = std::uint32_t(real(first));
    const std::uint32_t before_end = std::min(size, std::uint32_t(ranks_) - rank);
    use(0u, rank, before_end);
    if (before_end < size) use(before_end, 0u, size - before_end);
  }

  // The blocks that a gather or scatter moves: each as often as its distance has digits that are not zero.
  static std::uint64_t moved_blocks(const Parameters &parameters) {
    std::uint64_t blocks = 0;
    for (std::int32_t distance = 1; distance < parameters.ranks; ++distance)
      for (std::int32_t rest = distance; rest > 0; rest /= parameters.radix) blocks += rest % parameters.radix != 0;
    return blocks;
  }

 private:
  std::uint32_t size(std::int64_t distance, std::int64_t place) const {
    return std::uint32_t(std::min<std::int64_t>(place, ranks_ - distance));
  }

  std::int32_t ranks_, radix_, root_, distance_;
  std::int64_t place_ = 1;  // of the lowest digit that is not zero; on the root, a power of the radix not below `ranks`
};

}  // namespace tutti::collectives

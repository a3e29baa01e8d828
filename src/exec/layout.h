// SPDX-License-Identifier: BSD-3-Clause
//
// Where the blocks of one buffer lie in one call, in elements: the three partitions of collectives/schedule.h with
// counts put in. Invariant: the elements of a run of blocks follow one another, or the run is one block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::exec {

// The caller's counts, and displacements where blocks do not simply follow one another (null: they do).
struct Listed {
  const std::size_t *counts = nullptr;
  const std::size_t *displacements = nullptr;
};

class Layout {
 public:
  // Vectors of `count` elements, cut evenly.
  void cut_evenly(std::uint32_t blocks, std::uint64_t count) { cut(blocks, count, count / blocks, count % blocks); }
  // Blocks of `count` elements each.
  void cut_equally(std::uint32_t blocks, std::uint64_t count) { cut(blocks, blocks * count, count, 0); }
  // As listed. Allocates only where there are more blocks than ever before.
  void list(std::uint32_t blocks, const Listed &listed) {
    blocks_ = blocks;
    listed_ = true;
    begins_.resize(blocks);
    sizes_.resize(blocks);
    vector_ = 0;
    for (std::uint32_t block = 0; block < blocks; ++block) {
      begins_[block] = listed.displacements != nullptr ? listed.displacements[block] : vector_;
      sizes_[block] = listed.counts[block];
      vector_ += sizes_[block];
    }
  }

  // Elements of one vector.
  std::uint64_t vector() const { return vector_; }
  std::uint64_t begin(std::uint32_t block) const {
    const std::uint64_t vectors = block / blocks_, within = block % blocks_;
    if (listed_) return vectors * vector_ + begins_[within];
    return vectors * vector_ + within * base_ + std::min(within, larger_);
  }
  // Of a run of blocks within one vector.
  std::uint64_t elements(std::uint32_t first, std::uint32_t blocks) const {
    const std::uint64_t within = first % blocks_, end = within + blocks;
    if (!listed_) return blocks * base_ + std::min(end, larger_) - std::min(within, larger_);
    std::uint64_t elements = 0;
    for (std::uint64_t block = within; block < end; ++block) elements += sizes_[block];
    return elements;
  }

 private:
  void cut(std::uint32_t blocks, std::uint64_t vector, std::uint64_t base, std::uint64_t larger) {
    blocks_ = blocks;
    vector_ = vector;
    base_ = base;
    larger_ = larger;
    listed_ = false;
  }

  std::uint32_t blocks_ = 1;
  std::uint64_t vector_ = 0, base_ = 0, larger_ = 0;
  bool listed_ = false;
  std::vector<std::uint64_t> begins_, sizes_;
};

}  // namespace tutti::exec

// SPDX-License-Identifier: BSD-3-Clause
//
// What ranks put in and what must come out, computed here without any collective: values are a function of (rank,
// element), so every rank can work out every other's (values.h). Invariant: the right result is exact, so it is
// compared bit by bit.
//
// Values repeat after a prime number of elements, which no block size of an algorithm shares: a block in the wrong
// place shows. Each call starts the sequence elsewhere (`salt`), so a result left over from an earlier call shows too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti-perf/collectives.h"

namespace tutti::perf {

class Pattern {
 public:
  Pattern(Outcome outcome, const ElementType &type, const Operator &op, int ranks, int rank, int root);

  // Elements of this rank's input and output, if a block (or the vector) has `count`; 0 where it has none.
  std::size_t inputs(std::size_t count) const { return count * input_blocks_; }
  std::size_t outputs(std::size_t count) const { return count * blocks_.size(); }
  // Where the input is in an output that is in place.
  std::size_t own_place(std::size_t count) const { return count * own_place_; }

  // This rank's contribution. Where only the root contributes, the others get what poison() writes.
  void fill(void *memory, std::size_t count, std::uint64_t salt) const;
  // Wrong in every element, for outputs before a call.
  void poison(void *memory, std::size_t count, std::uint64_t salt) const;
  // How many elements are not what must have come out.
  std::uint64_t wrong(const void *memory, std::size_t count, std::uint64_t salt) const;

 private:
  // What an output block must hold: a period, from the element on with which block `from` of its vector begins.
  struct Block {
    std::size_t period, from;
  };
  void lay(const std::vector<std::byte> &period, void *memory, std::size_t count, std::uint64_t salt, bool wrong) const;
  std::uint64_t wrong_in(const std::vector<std::byte> &period, const std::byte *at, std::size_t count,
                         std::uint64_t salt) const;

  std::size_t bytes_;  // of an element
  std::size_t input_blocks_ = 1, own_place_ = 0;
  bool gives_ = true;
  std::vector<std::byte> mine_;
  std::vector<std::vector<std::byte>> periods_;
  std::vector<Block> blocks_;
};

}  // namespace tutti::perf

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

  // This rank's contribution. Where only the root contributes, the others get what poison() writes.
  void fill(void *memory, std::size_t count, std::uint64_t salt) const;
  // Wrong in every element, for outputs before a call.
  void poison(void *memory, std::size_t count, std::uint64_t salt) const;
  // How many elements are not what must have come out.
  std::uint64_t wrong(const void *memory, std::size_t count, std::uint64_t salt) const;

 private:
  void lay(const std::vector<std::byte> &period, void *memory, std::size_t count, std::uint64_t salt) const;

  std::size_t bytes_;  // of an element
  std::vector<std::byte> mine_, expected_, poison_;
};

}  // namespace tutti::perf

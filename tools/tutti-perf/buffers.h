// SPDX-License-Identifier: BSD-3-Clause
//
// The buffers of a point: slots of input and output that timed calls rotate through. Ordinary memory of a program, the
// same for both libraries. Invariant: each slot is used once between fill() and collect(), so every result can be
// judged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tutti-perf/options.h"
#include "tutti-perf/pattern.h"

namespace tutti::perf {

class Buffers {
 public:
  Buffers(const Options &options, const Pattern &pattern, int ranks, std::size_t bytes, std::size_t slots);

  std::size_t slots() const { return slots_; }
  Call call(std::size_t slot) const;
  // Writes inputs and spoils outputs of the first `slots` slots, with values that no earlier call had.
  void fill(std::size_t slots);
  // The number of wrong elements in the first `slots` outputs; 0 if nothing is to be checked.
  std::uint64_t collect(std::size_t slots) const;

 private:
  struct Free {
    void operator()(void *memory) const { ::operator delete (memory, std::align_val_t{kAlignment}); }
  };
  // Pages: what a program's larger allocations look like, and no slot shares a cache line with another.
  static constexpr std::size_t kAlignment = 4096;
  std::byte *at(const std::unique_ptr<std::byte, Free> &memory, std::size_t slot) const {
    return memory.get() + slot * stride_;
  }

  const Options &options_;
  const Pattern &pattern_;
  std::size_t count_, slots_, stride_;
  std::uint64_t salt_ = 0;
  std::vector<std::size_t> counts_;  // by rank, and so below
  std::vector<int> mpi_counts_, mpi_displs_;
  std::unique_ptr<std::byte, Free> in_, out_;
};

}  // namespace tutti::perf

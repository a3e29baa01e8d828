// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-perf/buffers.h"

#include <cstring>
#include <new>

namespace tutti::perf {
namespace {

constexpr std::size_t kCacheLine = 64;

// Room for one cache line more than asked, so that neighbouring slots are not a power of two apart and do not all fall
// into the same sets of the cache.
std::size_t stride_of(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine + kCacheLine; }

}  // namespace

Buffers::Buffers(const Options &options, const Pattern &pattern, int ranks, std::size_t bytes, std::size_t slots)
    : options_(options),
      pattern_(pattern),
      count_(bytes / options.type->bytes),
      slots_(slots),
      // Every rank has room for the whole: what it does not need is never touched.
      stride_(stride_of(bytes * static_cast<std::size_t>(options.collective->blocks(ranks)))) {
  const auto allocate = [&] {
    const std::size_t size = stride_ * slots_;
    auto *memory = static_cast<std::byte *>(::operator new (size, std::align_val_t{kAlignment}));
    std::memset(memory, 0, size);  // pages come now, on the node of this rank's core, not on the clock
    return memory;
  };
  out_.reset(allocate());
  if (!options.in_place) in_.reset(allocate());
  for (int rank = 0; rank < ranks; ++rank) {
    counts_.push_back(count_);
    mpi_counts_.push_back(static_cast<int>(count_));
    mpi_displs_.push_back(static_cast<int>(count_) * rank);
  }
}

Call Buffers::call(std::size_t slot) const {
  return {.in = at(options_.in_place ? out_ : in_, slot),
          .out = at(out_, slot),
          .count = count_,
          .type = options_.type,
          .op = options_.op,
          .root = options_.root,
          .in_place = options_.in_place,
          .counts = counts_.data(),
          .mpi_counts = mpi_counts_.data(),
          .mpi_displs = mpi_displs_.data()};
}

void Buffers::fill(std::size_t slots) {
  salt_ += slots_;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const Call one = call(slot);
    // In place, what is not input is poisoned all the same.
    pattern_.poison(one.out, count_, salt_ + slot);
    auto *in = static_cast<std::byte *>(one.in);
    if (one.in_place) in += pattern_.own_place(count_) * options_.type->bytes;
    pattern_.fill(in, count_, salt_ + slot);
  }
}

std::uint64_t Buffers::collect(std::size_t slots) const {
  std::uint64_t wrong = 0;
  if (options_.check)
    for (std::size_t slot = 0; slot < slots; ++slot) wrong += pattern_.wrong(call(slot).out, count_, salt_ + slot);
  return wrong;
}

}  // namespace tutti::perf

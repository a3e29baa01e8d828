// SPDX-License-Identifier: BSD-3-Clause
#include "base/pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "base/check.h"

namespace tutti {

Pool::~Pool() {
  for (Block *block : free_) {
    while (block != nullptr) {
      Block *next = block->next;
      std::free(block);
      block = next;
    }
  }
}

std::byte *Pool::take(std::size_t bytes) {
  const std::size_t rounded = std::bit_ceil(std::max(bytes, kSmallest));
  const auto size_class = static_cast<std::size_t>(std::countr_zero(rounded) - std::countr_zero(kSmallest));
  Block *block = free_[size_class];
  if (block != nullptr) {
    free_[size_class] = block->next;
  } else {
    void *memory = std::aligned_alloc(alignof(Block), sizeof(Block) + rounded);
    TUTTI_CHECK(memory != nullptr, "out of memory for a message of {} bytes that has to wait", bytes);
    block = new (memory) Block{nullptr, size_class};
    bytes_ += sizeof(Block) + rounded;
  }
  out_ += sizeof(Block) + rounded;
  return reinterpret_cast<std::byte *>(block + 1);
}

void Pool::give(std::byte *memory) {
  Block *block = reinterpret_cast<Block *>(memory) - 1;
  out_ -= sizeof(Block) + (kSmallest << block->size_class);
  block->next = free_[block->size_class];
  free_[block->size_class] = block;
}

}  // namespace tutti

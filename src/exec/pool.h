// SPDX-License-Identifier: BSD-3-Clause
//
// Memory for messages that have to wait outside of the receive queue. Given back, it is kept for the next one, so that
// a communicator whose ranks run ahead of each other stops allocating once it has seen its worst.
//
// Invariant: what is out never exceeds what senders may have unconsumed (exec/windows.h), rounded up to powers of two.
#pragma once

#include <array>
#include <cstddef>

namespace tutti::exec {

class Pool {
 public:
  Pool() = default;
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  std::byte *take(std::size_t bytes);
  void give(std::byte *memory);

 private:
  // In front of the memory that is handed out, one cache line so that this keeps its alignment.
  struct alignas(64) Block {
    Block *next;
    std::size_t size_class;
  };
  static constexpr std::size_t kSmallest = 64;
  std::array<Block *, 40> free_{};  // by power of two above the smallest
};

}  // namespace tutti::exec

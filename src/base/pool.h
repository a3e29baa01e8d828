// SPDX-License-Identifier: BSD-3-Clause
//
// Memory for messages that have to wait outside of the receive queue. Given back, it is kept for the next one, so that
// a communicator whose ranks run ahead of each other stops allocating once it has seen its worst.
//
// Invariant: a piece of memory is either out or kept; both are rounded up to powers of two. How much may be out is its
// users' business: they count what senders may have unconsumed (exec/windows.h, match/matcher.h).
#pragma once

#include <array>
#include <cstddef>

namespace tutti {

class Pool {
 public:
  Pool() = default;
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  std::byte *take(std::size_t bytes);
  void give(std::byte *memory);
  // Bytes out, and bytes that the system has given in all, with what keeping them costs.
  std::size_t out() const { return out_; }
  std::size_t bytes() const { return bytes_; }

 private:
  // In front of the memory that is handed out, one cache line so that this keeps its alignment.
  struct alignas(64) Block {
    Block *next;
    std::size_t size_class;
  };
  static constexpr std::size_t kSmallest = 64;
  std::array<Block *, 40> free_{};  // by power of two above the smallest
  std::size_t out_ = 0, bytes_ = 0;
};

}  // namespace tutti

// SPDX-License-Identifier: BSD-3-Clause
//
// The shared memory of one open device context, and what its peers hold of it: a mapping and the fd that wakes the
// owner. The memfd has no name and is sparse over its whole range from the start, so that an access never lies beyond
// its end and nothing is left behind however the process ends.
// Invariant: an Endpoint's memory stays mapped while anyone in this process holds it, also after the owner closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "softdev/layout.h"

namespace tutti::softdev {

class Endpoint {
 public:
  // A new arena of `range` bytes, zero-filled; null with errno.
  static std::shared_ptr<Endpoint> create(std::size_t range);
  // Another process's arena; takes over both fds. The memory fd is closed, since the mapping holds the memory.
  static std::shared_ptr<Endpoint> attach(int memory_fd, int event_fd, std::size_t range);
  ~Endpoint();
  Endpoint(const Endpoint &) = delete;
  Endpoint &operator=(const Endpoint &) = delete;

  std::byte *base() const { return base_; }
  ArenaHeader &header() const { return *reinterpret_cast<ArenaHeader *>(base_); }
  std::size_t range() const { return range_; }
  int memory_fd() const { return memory_fd_; }
  int event_fd() const { return event_fd_; }
  void wake() const;  // unconditionally

 private:
  Endpoint() = default;
  std::byte *base_ = nullptr;
  std::size_t range_ = 0;
  int memory_fd_ = -1, event_fd_ = -1;
};

// How much address space an arena takes: enough for all of the machine's memory.
std::size_t arena_range(bool stepped);

// The owner's allocator of arena pages: first fit over free extents, at control time only.
class Heap {
 public:
  explicit Heap(Endpoint &arena);
  // Zero-filled; offset into the arena, 0 when none is left. Small extents stay below large ones' alignment.
  std::uint64_t allocate(std::size_t bytes);
  void release(std::uint64_t offset, std::size_t bytes);
  static std::size_t rounded(std::size_t bytes);

 private:
  Endpoint &arena_;
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes
};

}  // namespace tutti::softdev

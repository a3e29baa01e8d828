// SPDX-License-Identifier: BSD-3-Clause
#include "softdev/arena.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/check.h"

namespace tutti::softdev {
namespace {

constexpr std::size_t kPage = 4096;

void *map_shared(int fd, std::size_t range) {
  void *base = mmap(nullptr, range, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) return nullptr;
  madvise(base, range, MADV_DONTDUMP);  // a core file must not hold the peers' memory, nor terabytes of holes
  return base;
}

}  // namespace

std::shared_ptr<Endpoint> Endpoint::create(std::size_t range) {
  std::shared_ptr<Endpoint> endpoint(new Endpoint);
  endpoint->memory_fd_ = memfd_create("tutti", MFD_CLOEXEC);
  if (endpoint->memory_fd_ < 0 || ftruncate(endpoint->memory_fd_, static_cast<off_t>(range)) != 0) return nullptr;
  endpoint->event_fd_ = eventfd(0, EFD_CLOEXEC);
  if (endpoint->event_fd_ < 0) return nullptr;
  endpoint->base_ = static_cast<std::byte *>(map_shared(endpoint->memory_fd_, range));
  if (endpoint->base_ == nullptr) return nullptr;
  endpoint->range_ = range;
  return endpoint;
}

std::shared_ptr<Endpoint> Endpoint::attach(int memory_fd, int event_fd, std::size_t range) {
  std::shared_ptr<Endpoint> endpoint(new Endpoint);
  endpoint->event_fd_ = event_fd;
  endpoint->base_ = static_cast<std::byte *>(map_shared(memory_fd, range));
  close(memory_fd);
  if (endpoint->base_ == nullptr) return nullptr;
  endpoint->range_ = range;
  return endpoint;
}

Endpoint::~Endpoint() {
  if (base_ != nullptr) munmap(base_, range_);
  if (memory_fd_ >= 0) close(memory_fd_);
  if (event_fd_ >= 0) close(event_fd_);
}

void Endpoint::wake() const {
  const std::uint64_t one = 1;
  // Cannot block: nobody counts to 2^64. EINTR cannot happen where nothing blocks.
  const ssize_t written = write(event_fd_, &one, sizeof one);
  TUTTI_CHECK(written == sizeof one, "the wake-up of a peer failed, errno {}", errno);
}

std::size_t arena_range(bool stepped) {
  // A stepped world has hundreds of arenas in one address space of 2^47 bytes.
  if (stepped) return std::size_t{2} << 30;
  const std::size_t memory =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  return std::bit_ceil(std::max(memory, std::size_t{4} << 30));
}

Heap::Heap(Endpoint &arena) : arena_(arena) { free_[kHeapStart] = arena.range() - kHeapStart; }

std::size_t Heap::rounded(std::size_t bytes) { return (std::max(bytes, std::size_t{1}) + kPage - 1) & ~(kPage - 1); }

std::uint64_t Heap::allocate(std::size_t bytes) {
  if (bytes > arena_.range()) return 0;
  bytes = rounded(bytes);
  const std::uint64_t align = bytes >= kHugePage ? kHugePage : kPage;  // so that huge pages can back large ones
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [start, length] = *it;
    const std::uint64_t at = (start + align - 1) & ~(align - 1);
    if (at + bytes > start + length) continue;
    free_.erase(it);
    if (at > start) free_[start] = at - start;
    if (start + length > at + bytes) free_[at + bytes] = start + length - at - bytes;
    return at;
  }
  return 0;
}

void Heap::release(std::uint64_t offset, std::size_t bytes) {
  bytes = rounded(bytes);
  // Gives the pages back and makes them read as zero for their next user.
  const int punched = fallocate(arena_.memory_fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(offset), static_cast<off_t>(bytes));
  TUTTI_CHECK(punched == 0, "punching a hole into the arena failed, errno {}", errno);
  std::uint64_t start = offset, length = bytes;
  auto next = free_.lower_bound(offset);
  TUTTI_CHECK(next == free_.end() || start + length <= next->first, "arena memory freed twice");
  if (next != free_.end() && next->first == start + length) {
    length += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    TUTTI_CHECK(before->first + before->second <= start, "arena memory freed twice");
    if (before->first + before->second == start) {
      before->second += length;
      return;
    }
  }
  free_[start] = length;
}

}  // namespace tutti::softdev

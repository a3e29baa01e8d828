// SPDX-License-Identifier: BSD-3-Clause
//
// Registered memory of a device: whole pages that peers may write into, placed on the device's NUMA node, registered
// once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "topology/topology.h"
#include "verbs/objects.h"

namespace tutti::mesh {

inline constexpr std::size_t kCacheLine = 64;

// Where memory comes from and belongs.
struct MemorySource {
  const verbs::Device *device = nullptr;
  ibv_pd *pd = nullptr;
  const topology::Topology *topology = nullptr;  // null: placed by first touch
  int numa_node = -1;                            // -1: unknown, placed by first touch
};

class Memory {
 public:
  // bytes is rounded up to pages, which read as zero.
  static Result<Memory> allocate(const MemorySource &source, std::size_t bytes, int access);

  // Its pages stay until the device is closed.
  void leave_to_device() { pages_.leave_to_device(); }
  std::byte *data() const { return pages_.data(); }
  std::size_t bytes() const { return pages_.size(); }
  std::uint32_t lkey() const { return region_ ? region_->lkey : 0; }
  std::uint32_t rkey() const { return region_ ? region_->rkey : 0; }

 private:
  verbs::Memory pages_;
  verbs::MrHandle region_;  // goes before its pages
};

}  // namespace tutti::mesh

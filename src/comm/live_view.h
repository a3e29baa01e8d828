// SPDX-License-Identifier: BSD-3-Clause
//
// Writes base/live.h's picture of this rank. Without the memory for it there is none, and nothing else changes.
#pragma once

#include <cstdint>

#include "base/live.h"
#include "mesh/mesh.h"

namespace tutti::comm {

class LiveView {
 public:
  explicit LiveView(const mesh::Mesh &mesh);
  ~LiveView();
  LiveView(const LiveView &) = delete;
  LiveView &operator=(const LiveView &) = delete;

  // At most every 100 ms; allocates nothing.
  void look(mesh::Mesh &mesh, bool failed, std::int64_t now) {
    if (header_ != nullptr && now - written_ns_ >= kEveryNs) write(mesh, failed, now);
  }

 private:
  static constexpr std::int64_t kEveryNs = 100'000'000;
  void write(mesh::Mesh &mesh, bool failed, std::int64_t now);

  LiveHeader *header_ = nullptr;
  LivePeer *peers_ = nullptr;
  std::size_t bytes_ = 0;
  int fd_ = -1;
  std::int64_t written_ns_ = 0;
};

}  // namespace tutti::comm

// SPDX-License-Identifier: BSD-3-Clause
#include "mesh/rail.h"

#include <bit>

namespace tutti::mesh {

void QpTable::reserve(std::size_t qps) {
  entries_.assign(std::bit_ceil(qps * 4 + 4), Entry{});
  mask_ = entries_.size() - 1;
}

void QpTable::insert(std::uint32_t qpn, Peer *peer) {
  std::size_t i = qpn & mask_;
  while (entries_[i].peer != nullptr) i = (i + 1) & mask_;
  entries_[i] = {qpn, peer};
}

// What stood behind it in a run of taken places moves up, so that no search ends early.
void QpTable::erase(std::uint32_t qpn) {
  std::size_t hole = qpn & mask_;
  while (entries_[hole].peer != nullptr && entries_[hole].qpn != qpn) hole = (hole + 1) & mask_;
  for (std::size_t i = hole; entries_[i].peer != nullptr; i = (i + 1) & mask_) {
    const std::size_t home = entries_[i].qpn & mask_;
    if (i != hole && ((i - home) & mask_) >= ((i - hole) & mask_)) {
      entries_[hole] = entries_[i];
      hole = i;
    }
  }
  entries_[hole] = {};
}

}  // namespace tutti::mesh

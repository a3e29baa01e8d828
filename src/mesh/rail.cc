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

}  // namespace tutti::mesh

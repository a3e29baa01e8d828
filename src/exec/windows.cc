// SPDX-License-Identifier: BSD-3-Clause
#include "exec/windows.h"

#include <algorithm>
#include <cstring>

namespace tutti::exec {

Windows::Windows(mesh::Mesh &mesh, const mesh::Group &group, std::uint16_t communicator, std::uint32_t generation,
                 std::uint32_t window_bytes)
    : mesh_(mesh),
      group_(group),
      communicator_(communicator),
      generation_(generation),
      window_bytes_(window_bytes),
      half_(window_bytes / 2),
      windows_(static_cast<std::size_t>(group.ranks())) {
  for (mesh::Window &window : windows_) window.end = window_bytes_;
}

void Windows::tell(int rank) {
  mesh::Window &window = of(rank);
  due_ -= static_cast<int>(window.due);
  window.tell(mesh_, rank, {.communicator = communicator_, .signature = generation_}, link::Kind::window);
  due_ += static_cast<int>(window.due);
}

void Windows::retry() {
  for (int rank = 0; rank < group_.ranks(); ++rank)
    if (const int world_rank = group_.world_rank(rank); of(world_rank).due) tell(world_rank);
}

void Windows::learn(const mesh::Record &record) {
  if (record.stream.signature != generation_ || group_.rank_of(record.peer) < 0) return;
  std::uint64_t consumed = 0;
  std::memcpy(&consumed, record.payload, std::min<std::size_t>(sizeof(consumed), record.bytes));
  of(record.peer).end = std::max(of(record.peer).end, consumed + window_bytes_);
}

}  // namespace tutti::exec

// SPDX-License-Identifier: BSD-3-Clause
#include "exec/windows.h"

#include <algorithm>
#include <cstring>

namespace tutti::exec {

Windows::Windows(mesh::Mesh &mesh, const mesh::Group &group, const mesh::Stream &news, std::uint32_t window_bytes,
                 int *all_due)
    : mesh_(mesh),
      group_(group),
      news_(news),
      window_bytes_(window_bytes),
      half_(window_bytes / 2),
      windows_(static_cast<std::size_t>(group.ranks())),
      all_due_(all_due) {
  for (mesh::Window &window : windows_) window.end = window_bytes_;
}

void Windows::tell(int rank) {
  mesh::Window &window = of(rank);
  const int before = static_cast<int>(window.due);
  window.tell(mesh_, rank, news_, link::Kind::window);
  const int more = static_cast<int>(window.due) - before;
  due_ += more;
  if (all_due_ != nullptr) *all_due_ += more;
}

void Windows::retry() {
  for (int rank = 0; rank < group_.ranks(); ++rank)
    if (const int world_rank = group_.world_rank(rank); of(world_rank).due) tell(world_rank);
}

void Windows::forget_due() {
  for (mesh::Window &window : windows_) window.due = false;
  if (all_due_ != nullptr) *all_due_ -= due_;
  due_ = 0;
}

void Windows::learn(const mesh::Record &record) {
  if (record.stream.signature != news_.signature || group_.rank_of(record.peer) < 0) return;
  std::uint64_t consumed = 0;
  std::memcpy(&consumed, record.payload, std::min<std::size_t>(sizeof(consumed), record.bytes));
  of(record.peer).end = std::max(of(record.peer).end, consumed + window_bytes_);
}

}  // namespace tutti::exec

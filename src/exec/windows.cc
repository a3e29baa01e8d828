// SPDX-License-Identifier: BSD-3-Clause
#include "exec/windows.h"

#include <algorithm>
#include <cstring>

namespace tutti::exec {

Windows::Windows(mesh::Mesh &mesh, std::uint16_t communicator, std::uint32_t window_bytes)
    : mesh_(mesh),
      communicator_(communicator),
      window_bytes_(window_bytes),
      half_(window_bytes / 2),
      windows_(static_cast<std::size_t>(mesh.ranks())) {
  for (Window &window : windows_) window.end = window_bytes_;
}

void Windows::tell(int rank) {
  Window &window = of(rank);
  const std::uint64_t consumed = window.consumed;
  const bool told = mesh_.send_control(rank, {.communicator = communicator_}, link::Kind::window,
                                       {reinterpret_cast<const std::byte *>(&consumed), sizeof(consumed)});
  if (told) window.told = consumed;
  due_ += static_cast<int>(!told) - static_cast<int>(window.due);
  window.due = !told;
}

void Windows::retry() {
  for (int rank = 0; rank < mesh_.ranks(); ++rank)
    if (of(rank).due) tell(rank);
}

void Windows::learn(int rank, std::span<const std::byte> payload) {
  std::uint64_t consumed = 0;
  std::memcpy(&consumed, payload.data(), std::min(sizeof(consumed), payload.size()));
  of(rank).end = std::max(of(rank).end, consumed + window_bytes_);
}

}  // namespace tutti::exec

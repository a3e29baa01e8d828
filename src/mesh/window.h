// SPDX-License-Identifier: BSD-3-Clause
//
// How far one sender of a communicator may run ahead of one receiver, in bytes that both ends count alike. The receiver
// tells what it has consumed before its sender runs out: at half a window. So a sender that waits, waits for
// consumption, never for news of it.
#pragma once

#include <cstdint>
#include <span>

#include "mesh/mesh.h"

namespace tutti::mesh {

struct Window {
  std::uint64_t sent = 0, end = 0;       // of what we send; up to where we may
  std::uint64_t consumed = 0, told = 0;  // of what we receive
  bool due = false;                      // news that found no room

  // Whether that has to be told.
  bool consume(std::uint64_t bytes, std::uint64_t half_window) {
    consumed += bytes;
    return consumed - told >= half_window;
  }
  // Tells it by a message of this kind; where there is no room, it is due.
  void tell(Mesh &mesh, int world_rank, const Stream &stream, link::Kind kind) {
    const std::uint64_t count = consumed;
    due = !mesh.send_control(world_rank, stream, kind, std::as_bytes(std::span(&count, 1)));
    if (!due) told = count;
  }
};

}  // namespace tutti::mesh

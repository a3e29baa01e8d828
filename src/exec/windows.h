// SPDX-License-Identifier: BSD-3-Clause
//
// How far a communicator's senders may run ahead of their receivers. What a receiver cannot consume yet, because it has
// not begun that call or an earlier message is missing, lies in its memory; a sender stops once a window of bytes is
// out that it does not know to be consumed, over all calls together.
//
// Invariant: both ends count the same (mesh/window.h): every message of data by its bytes and what keeping it costs,
// from the first call on.
#pragma once

#include <cstdint>
#include <vector>

#include "mesh/group.h"
#include "mesh/window.h"

namespace tutti::exec {

class Windows {
 public:
  // The group outlives the windows. Ranks are those of the world here, as the mesh counts. The generation tells this
  // communicator from earlier ones of the same number, whose news may still be under way.
  // News of them go as `news`, which has the generation as its signature. `all_due` is a sum over several windows.
  Windows(mesh::Mesh &mesh, const mesh::Group &group, const mesh::Stream &news, std::uint32_t window_bytes,
          int *all_due = nullptr);

  // Half of a window is the oldest call's alone: otherwise later calls, which a receiver may begin only after that one,
  // could take all of it, and nobody would go on. So a message of a later call has to fit into what is left of the
  // other half; the oldest call's may reach beyond the end, or what is larger than a window would never be sent.
  bool open(int rank, std::uint64_t bytes, bool oldest) const {
    const mesh::Window &window = of(rank);
    return oldest ? window.sent < window.end : window.sent + charge(bytes) + half_ <= window.end;
  }
  void sent(int rank, std::uint64_t bytes) { of(rank).sent += charge(bytes); }
  void consumed(int rank, std::uint64_t bytes) {
    if (of(rank).consume(charge(bytes), half_)) [[unlikely]]
      tell(rank);
  }
  // A message of kind window has come.
  void learn(const mesh::Record &record);
  // Tells again what found no room.
  bool due() const { return due_ != 0; }
  int due_windows() const { return due_; }
  void retry();
  void forget_due();

 private:
  // Keeping a message costs more than its bytes: without this, empty ones would count for nothing.
  static constexpr std::uint64_t kMessageBytes = 64;
  static std::uint64_t charge(std::uint64_t bytes) { return bytes + kMessageBytes; }
  mesh::Window &of(int rank) { return windows_[static_cast<std::size_t>(group_.rank_of(rank))]; }
  const mesh::Window &of(int rank) const { return windows_[static_cast<std::size_t>(group_.rank_of(rank))]; }
  void tell(int rank);

  mesh::Mesh &mesh_;
  const mesh::Group &group_;
  const mesh::Stream news_;
  const std::uint64_t window_bytes_, half_;
  std::vector<mesh::Window> windows_;  // by rank of the group
  int due_ = 0;
  int *const all_due_;
};

}  // namespace tutti::exec

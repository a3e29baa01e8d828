// SPDX-License-Identifier: BSD-3-Clause
//
// A persistent call of a communicator. Ranks start persistent calls in any order, so they have no numbers among the
// other calls: each has a lane of its own, named by how many were made before it, with its own window. So no lane can
// stop another, or the numbered calls, whatever order ranks start them in (docs/adr, 7).
//
// Invariants
// - Every start is the same call: a rank sends another as much in each, so what comes from one rank is of one start
//   until it is of the next. Four bits of the number of starts tell them apart, however far ahead a rank is.
// - What comes from a rank is used in order: nothing overtakes what waits in `early`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/select.h"
#include "comm/operation.h"
#include "exec/windows.h"

namespace tutti::comm {

// The call of a lane's messages: the highest bit, the lane, the start. Numbered calls have 31 bits.
inline constexpr std::uint32_t kLaneBit = std::uint32_t{1} << 31, kStartBits = 4;
inline constexpr std::uint32_t kStarts = 1u << kStartBits, kLanes = 1u << (31 - kStartBits);
constexpr bool is_lane(std::uint32_t call) { return (call & kLaneBit) != 0; }
constexpr std::uint32_t lane_of(std::uint32_t call) { return (call & ~kLaneBit) >> kStartBits; }
constexpr std::uint32_t start_of(std::uint32_t call) { return call & (kStarts - 1); }

struct Lane {
  Lane(std::uint32_t index_of_it, mesh::Mesh &mesh, const mesh::Group &group, const mesh::Stream &news,
       std::uint32_t window_bytes, int &due)
      : index(index_of_it), windows(mesh, group, news, window_bytes, &due) {}

  // Of the start that is under way, or was last.
  std::uint32_t call() const { return kLaneBit | index << kStartBits | ((starts - 1) & (kStarts - 1)); }
  // The latest that waits from that rank; null: nothing.
  const exec::Arrival *last_from(int peer) const {
    for (auto arrival = early.rbegin(); arrival != early.rend(); ++arrival)
      if (arrival->record.peer == peer) return &*arrival;
    return nullptr;
  }

  const std::uint32_t index;
  exec::Windows windows;                 // of the operation: before it
  std::unique_ptr<Operation> operation;  // from the first start on
  bool active = false;
  std::uint32_t starts = 0;
  std::vector<exec::Arrival> early;  // of starts to come, in their own memory
  // What the communicator was told to take when the call was made, if it was told something else since.
  std::optional<collectives::Overrides> made_under;
};

}  // namespace tutti::comm

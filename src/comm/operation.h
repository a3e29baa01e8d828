// SPDX-License-Identifier: BSD-3-Clause
//
// One call of a communicator that has been started: its run, and how it ended. The communicator keeps operations for
// the next call of the same plan, so that starting one allocates nothing in steady state.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "comm/call.h"
#include "comm/conversion.h"
#include "exec/execution.h"

namespace tutti::comm {

struct Entry;
struct Lane;

struct Operation {
  Operation(Entry &owner, const exec::Plan &plan, mesh::Mesh &mesh, exec::Windows &windows, Pool &pool,
            mesh::Board *board = nullptr)
      : entry(owner), execution(plan, mesh, windows, pool, board) {}

  Entry &entry;
  exec::Execution execution;
  std::uint64_t prepared = 0;  // for which of the communicator's shapes; 0: none
  Shape shape;
  std::uint32_t call = 0;
  std::uint32_t signature = 0;
  bool done = false;      // the buffers are the caller's again
  bool overdue = false;   // it was under way when the communicator last asked for what is missing
  bool waiting = false;   // for credits, windows, or what comes on the board
  bool converts = false;  // results have to be made of what it has combined
  Lane *lane = nullptr;   // of a persistent call
  std::optional<Error> failure;
  std::unique_ptr<Conversion> conversion;  // made by the first call that needs one
  std::array<std::uint64_t, 2> tokens{};   // what a barrier exchanges
};

}  // namespace tutti::comm

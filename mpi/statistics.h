// SPDX-License-Identifier: BSD-3-Clause
//
// How many calls were handled and passed on, by function and reason; told at the end (TUTTI_MPI_STATS).
#pragma once

#include <atomic>
#include <optional>
#include <string_view>

#include "arguments.h"

namespace tutti::mpi {

enum class Mode { blocking, nonblocking, persistent };
inline constexpr int kCalls = 3 * kCollectives;

// The functions, counted through: Allreduce, Iallreduce, Allreduce_init, Bcast, ...
constexpr int call_index(Collective collective, Mode mode) {
  return static_cast<int>(collective) * 3 + static_cast<int>(mode);
}
const char *call_name(int index);
std::optional<int> call_of(std::string_view name);  // with or without "MPI_", whatever its case

// Why a call is passed on. All ranks of a communicator find the same reason.
enum class Reason { none, off, communicator, type, op, arguments };
inline constexpr int kReasons = static_cast<int>(Reason::arguments) + 1;

// Counts the call: handled for Reason::none. Any thread.
void count(int index, Reason reason);
// Sums over all ranks; rank 0 tells. Collective over state().all.
void tell_calls(bool in_full);

}  // namespace tutti::mpi

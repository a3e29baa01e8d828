// SPDX-License-Identifier: BSD-3-Clause
//
// A communicator: selects an algorithm for a call, keeps its plan, starts its execution, and routes the messages that
// come for it.
//
// Invariants
// - Calls are numbered alike on all ranks; a message belongs to the call whose number it carries.
// - After the first call of a shape nothing is selected, compiled or allocated; a repeat of the last one is not even
//   looked up. Early arrivals are the exception: they are copied to memory of their own.
// - Once it has failed it stays failed: every later call returns the same error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/select.h"
#include "comm/call.h"
#include "comm/conversion.h"
#include "comm/inbox.h"
#include "exec/execution.h"
#include "mesh/mesh.h"

namespace tutti::comm {

// What selection needs beyond the call; equal on all ranks.
struct Setting {
  std::int32_t ranks_per_core = 1;
  bool one_host = true;
  collectives::Overrides overrides;
  std::uint32_t window_bytes = 256 * 1024;
  std::size_t widen_bytes = 0;  // the largest vector of 16-bit floats that is reduced as float
  bool reproducible = false;    // reductions by one algorithm, whatever the size and the device
};

class Communicator {
 public:
  Communicator(mesh::Mesh &mesh, std::uint16_t id, const Setting &setting);

  int rank() const { return mesh_.rank(); }
  int ranks() const { return mesh_.ranks(); }
  std::uint16_t id() const { return id_; }

  // Starts a call and returns its execution, which is this communicator's and ends with finish(). One at a time.
  Result<exec::Execution *> start(const Call &call);
  void finish();
  // Gives a message of this communicator to its call, or keeps it for a call to come.
  void deliver(const mesh::Record &record);
  // Lets the running call try again what waited.
  void retry() {
    if (windows_.due()) [[unlikely]]
      windows_.retry();
    if (active_ != nullptr && active_->waits_for_grant()) active_->retry();
    if (!notices_.empty()) [[unlikely]]
      flush_notices();
  }
  bool active() const { return active_ != nullptr; }
  const exec::Execution *execution() const { return active_; }

  const std::optional<Error> &failure() const { return failure_; }
  // The first failure counts. Ends the running call.
  void fail(Error error);
  // "allreduce of 100 x float, sum (call 17)", for messages about a call that waits.
  std::string current() const;

 private:
  struct Entry {
    collectives::Choice choice;
    std::int32_t root;
    bool in_place;
    std::unique_ptr<exec::Plan> plan;
    std::unique_ptr<exec::Execution> execution;
  };
  Result<Entry *> entry_for(const Shape &shape);
  Result<> prepare(const Call &call);
  void mismatch(const mesh::Record &record);
  void send_failure_notices(const std::string &text);
  void flush_notices();

  mesh::Mesh &mesh_;
  const std::uint16_t id_;
  const Setting setting_;
  std::uint32_t next_call_ = 0;
  exec::Pool pool_;  // of the entries and the inbox: before them
  std::vector<std::unique_ptr<Entry>> entries_;

  Shape last_shape_;
  Entry *last_entry_ = nullptr;
  std::uint32_t last_signature_ = 0;
  bool last_pairwise_ = false;
  Conversion conversion_;  // of calls of the last shape

  exec::Execution *active_ = nullptr;
  std::uint32_t active_call_ = 0;
  exec::Windows windows_;
  Inbox inbox_{pool_};
  std::optional<Error> failure_;
  std::vector<std::pair<int, std::string>> notices_;  // failure notices that wait for a control credit
};

}  // namespace tutti::comm

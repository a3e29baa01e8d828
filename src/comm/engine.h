// SPDX-License-Identifier: BSD-3-Clause
//
// Progress and waiting: the only poller of the mesh. Hands arrivals to communicators, notices deaths, broken links and
// aborts, and makes a waiter spin, yield, then sleep.
//
// Why no wake-up is lost: a sleeper arms every completion queue, then polls once more, then waits on the channels. What
// arrived before arming is found by that poll; what arrives after it raises an event on a channel (the devices order
// the arming against their own deliveries). Deaths and aborts are counters that are read after arming, too, and raise
// event fds.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "comm/communicator.h"
#include "control/control.h"
#include "mesh/mesh.h"

namespace tutti::comm {

struct WaitPolicy {
  std::int64_t spin_ns = 0;   // polling without giving the core away
  std::int64_t yield_ns = 0;  // polling with sched_yield in between, after that; then sleeping
};

// By ranks per core; spin_us_setting is TUTTI_SPIN_US (-1: by table).
WaitPolicy wait_policy(int ranks_per_core, std::int64_t spin_us_setting);

class Engine {
 public:
  // control may be null: then nobody dies (one rank, or stepped tests).
  static Result<std::unique_ptr<Engine>> create(std::unique_ptr<mesh::Mesh> mesh, control::Control *control,
                                                WaitPolicy policy);
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  mesh::Mesh &mesh() { return *mesh_; }
  void add(Communicator &communicator);
  void remove(Communicator &communicator);

  // Polls once and delivers; the number of arrivals, at most `most` (what is fetched beyond what the running calls can
  // use has to be copied aside). Never blocks.
  int progress(std::size_t most = kBatch);
  // Runs one call to its end.
  Result<> run(Communicator &communicator, const Call &call);

  // Any thread: everything here ends with TUTTI_ERROR_ABORTED.
  void abort();
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kBatch = 16;
  Engine(std::unique_ptr<mesh::Mesh> mesh, control::Control *control, WaitPolicy policy, int wake_fd);
  enum class Until { done, settled };  // settled: and nobody waits for an acknowledgement of ours
  Result<> wait(Communicator &communicator, exec::Execution &execution, Until until);
  // Looks at what is not on the data path: deaths, breakages, aborts. Sets the communicators' failures.
  void look_around(std::int64_t now);
  void fail_all(const Error &error);
  bool over(const exec::Execution &execution, Until until) const {
    return execution.done() && (until == Until::done || !mesh_->owes_acknowledgement());
  }
  void sleep(const exec::Execution &execution, Until until);
  void give_up(const Error &error);

  std::unique_ptr<mesh::Mesh> mesh_;
  control::Control *control_;
  const WaitPolicy policy_;
  const int wake_fd_;
  std::vector<Communicator *> communicators_;  // by id
  std::array<mesh::Record, kBatch> records_;   // of the poll under way
  std::uint64_t seen_changes_ = 0;
  std::atomic<bool> aborted_{false};
  std::vector<mesh::Breakage> breakages_;  // not yet explained by a death
  std::int64_t explain_until_ns_ = 0;
};

}  // namespace tutti::comm

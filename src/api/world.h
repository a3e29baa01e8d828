// SPDX-License-Identifier: BSD-3-Clause
//
// A world: everything that one rank holds, in the order in which it is brought up, and torn down in reverse.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "api/devices.h"
#include "api/exchange.h"
#include "api/hello.h"
#include "api/request.h"
#include "api/tuning.h"
#include "base/config.h"
#include "bootstrap/bootstrap.h"
#include "comm/family.h"
#include "control/control.h"
#include "mesh/bringup.h"
#include "topology/topology.h"

namespace tutti::api {

struct WorldOptions {
  Config config;
  Environment environment;  // for hints of the launcher
  bool threads = false;
  void (*while_waiting)(void *user) = nullptr;
  void *waiting_user = nullptr;
  BetweenCalls between = nullptr;
};

class World {
 public:
  static Result<std::unique_ptr<World>> create(std::unique_ptr<bootstrap::Bootstrap> bootstrap,
                                               const WorldOptions &options);
  ~World();

  comm::Communicator &communicator() { return family_->world(); }
  comm::Family &family() { return *family_; }
  Requests &requests() { return requests_; }
  comm::Engine &engine() { return *engine_; }
  // Waits for all ranks, lets the fabric deliver what is under way, and says goodbye. Then only the destructor is left.
  // The error of a rank that died or left early; this rank is done all the same.
  Result<> finalize();
  void abort();
  // Empty when the caller did not ask for a lock.
  comm::Lock lock() { return threads_ ? comm::Lock(mutex_) : comm::Lock(); }
  bool has_lock() const { return threads_; }
  std::atomic<int> inside = 0;  // calls, where there is a lock (api/inside.h)

  Result<void *> allocate(std::size_t bytes);
  Result<> release(void *memory);
  Result<std::string> query(const std::string &what) const;

 private:
  World() = default;
  Result<> bring_up(bootstrap::Bootstrap &bootstrap, const WorldOptions &options);
  Result<> part_living(comm::Lock &held, bool &apart);
  void tell_what_was_capped() const;
  void tell_statistics();
  std::string describe_tuning() const;
  Result<std::string> describe_choice(std::string_view question) const;

  void start_progress(topology::PinPlan place);
  void stop_progress();

  bool threads_ = false;
  FairMutex mutex_;
  Config config_;
  int rank_ = 0, ranks_ = 1;
  std::int64_t began_ns_ = 0;
  std::string device_reason_;
  std::vector<std::string> device_names_;
  std::unique_ptr<topology::Topology> topology_;
  std::optional<topology::Binding> binding_;
  std::string binding_reason_;
  std::optional<DeviceSet> devices_;
  std::unique_ptr<control::Control> control_;
  std::unique_ptr<mesh::Mesh> mesh_;  // until the engine takes it
  Tuning tuning_;                     // communicators look at its rows
  std::unique_ptr<comm::Engine> engine_;
  std::unique_ptr<comm::Family> family_;
  Requests requests_{*this};
  std::thread progress_;
  std::map<void *, mesh::Memory> allocations_;
};

}  // namespace tutti::api

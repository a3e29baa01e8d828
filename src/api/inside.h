// SPDX-License-Identifier: BSD-3-Clause
//
// Where a call is from its handle to its return: inside a world, with the world's lock where it has one. It is counted
// then, so that nobody frees what it is in while it waits without the lock. Handles are looked at again under the lock:
// another thread may have freed what they named.
#pragma once

#include "api/handle.h"
#include "api/world.h"

namespace tutti::api {

class Inside {
 public:
  Inside() = default;
  explicit Inside(World &world) { enter(world); }
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;
  ~Inside() {
    if (lock_.owns_lock()) [[unlikely]]
      leave();
  }

  void enter(World &world) {
    world_ = &world;
    if (world.has_lock()) [[unlikely]]
      enter();
  }
  World &world() const { return *world_; }
  // Empty where the world has none.
  comm::Lock &lock() { return lock_; }
  bool locked() const { return lock_.owns_lock(); }

 private:
  void enter();
  void leave();

  World *world_ = nullptr;
  comm::Lock lock_;
};

// A communicator and its world. False: the handle is none of a live one.
class InsideComm {
 public:
  explicit InsideComm(const tutti_comm *handle) : comm_(find_comm(handle)) {
    if (comm_ == nullptr) [[unlikely]]
      return;
    inside_.enter(*world_of(*comm_));
    if (inside_.locked()) [[unlikely]]
      enter(handle);
  }
  InsideComm(const InsideComm &) = delete;
  InsideComm &operator=(const InsideComm &) = delete;
  ~InsideComm() {
    if (inside_.locked() && comm_ != nullptr) [[unlikely]]
      --comm_->communicator->inside;
  }

  explicit operator bool() const { return comm_ != nullptr; }
  const Comm &operator*() const { return *comm_; }
  const Comm *operator->() const { return comm_; }
  comm::Lock &lock() { return inside_.lock(); }

 private:
  void enter(const tutti_comm *handle);

  const Comm *comm_;
  Inside inside_;
};

}  // namespace tutti::api

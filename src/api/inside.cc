// SPDX-License-Identifier: BSD-3-Clause
#include "api/inside.h"

namespace tutti::api {

void Inside::enter() {
  world_->inside.fetch_add(1, std::memory_order_relaxed);  // also while it waits for the lock
  lock_ = world_->lock();
}

// The last touch of the world: who frees it may go on then, not once the lock is given up, which takes a moment longer.
void Inside::leave() {
  lock_.unlock();
  world_->inside.fetch_sub(1, std::memory_order_release);
}

void InsideComm::enter(const tutti_comm *handle) {
  if (find_comm(handle) == comm_) ++comm_->communicator->inside;
  else comm_ = nullptr;
}

}  // namespace tutti::api

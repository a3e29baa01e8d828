// SPDX-License-Identifier: BSD-3-Clause
//
// The handles of communicators (api/handle_table.h).
#pragma once

#include <atomic>
#include <memory>

#include "api/world.h"
#include "tutti/tutti.h"

namespace tutti::api {

// What a handle stands for: both stay while it is live.
struct Comm {
  World *world = nullptr;
  comm::Communicator *communicator = nullptr;
  bool is_world() const { return communicator == &world->communicator(); }
};

// For the world's communicator; takes the world over. Error: as many as there can be in a process.
Result<tutti_comm *> make_handle(std::unique_ptr<World> world);
// For another of its communicators.
Result<tutti_comm *> make_handle(const Comm &comm);
// Null for what is no live handle. Cheap: called by every operation.
const Comm *find_comm(const tutti_comm *handle);
// Of what find_comm() gave, without the world's lock: another thread may have freed it since, and used it again.
inline World *world_of(const Comm &comm) {
  return std::atomic_ref(const_cast<Comm &>(comm).world).load(std::memory_order_relaxed);
}
// With the world's lock, of a live one: from here on only abort_world finds it. end_free gives the slot back, and
// destroys the world if it is the world's, after which all handles of its communicators are dead, too.
void begin_free(const tutti_comm *handle);
void end_free(const tutti_comm *handle);
// Any thread, also while the world is being freed: it is there until the abort is done. False for what is no live
// handle. Never waits for the world: an abort only leaves word.
bool abort_world(const tutti_comm *handle);

}  // namespace tutti::api

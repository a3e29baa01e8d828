// SPDX-License-Identifier: BSD-3-Clause
//
// The handles of communicators (api/handle_table.h).
#pragma once

#include <memory>

#include "api/world.h"
#include "tutti/tutti.h"

namespace tutti::api {

// What a handle stands for.
struct Comm {
  World *world = nullptr;
  comm::Communicator *communicator = nullptr;
  bool is_world() const { return communicator == &world->communicator(); }
};

// For the world's communicator. Never null; takes the world over.
tutti_comm *make_handle(std::unique_ptr<World> world);
// For another of its communicators. Error: as many as there can be in a process.
Result<tutti_comm *> make_handle(const Comm &comm);
// Null for what is no live handle. Cheap: called by every operation.
const Comm *find_comm(const tutti_comm *handle);
// From here on only abort_world finds it; world null for what is no live handle. end_free gives the slot back, and
// destroys the world if it is the world's, after which all handles of its communicators are dead, too.
Comm begin_free(const tutti_comm *handle);
void end_free(const tutti_comm *handle);
// Any thread, also while the world is being freed: it is there until the abort is done. False for what is no live
// handle. Never waits for the world: an abort only leaves word.
bool abort_world(const tutti_comm *handle);

}  // namespace tutti::api

// SPDX-License-Identifier: BSD-3-Clause
//
// The handles that C callers hold. A handle is no address: it names a slot and how often that slot has been used, so
// that a stale or freed one is told apart from a live one without touching freed memory.
#pragma once

#include <memory>

#include "api/world.h"
#include "tutti/tutti.h"

namespace tutti::api {

// Never null; takes the world over.
tutti_comm *make_handle(std::unique_ptr<World> world);
// Null for what is no live handle. Cheap: called by every operation.
World *find_world(const tutti_comm *handle);
// The world, which the handle no longer names; null for what is no live handle.
std::unique_ptr<World> take_world(const tutti_comm *handle);

}  // namespace tutti::api

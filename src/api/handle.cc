// SPDX-License-Identifier: BSD-3-Clause
#include "api/handle.h"

#include <mutex>

#include "api/handle_table.h"
#include "base/check.h"

namespace tutti::api {
namespace {

struct Slot : HandleSlot {
  std::uintptr_t ending = 0;  // the handle while it is being freed
  Comm comm;
  std::unique_ptr<World> world;  // where it is the world's
  Slot *next_free = nullptr;
};

// As many communicators at once in one process as two worlds can have. Guarded by the mutex, but for lookups.
struct Table {
  std::mutex mutex;
  HandleTable<Slot, 0x5, 17> slots;
  Slot *free = nullptr;  // a list
};
constinit Forever<Table> forever;
Table &table() { return forever.value; }

std::uintptr_t value_of(const tutti_comm *handle) { return reinterpret_cast<std::uintptr_t>(handle); }

void give_slot(Slot &slot) {
  slot.handle.store(0, std::memory_order_release);
  slot.ending = 0;
  slot.next_free = table().free;
  table().free = &slot;
}

// With the mutex held.
Result<Slot *> take_slot() {
  if (table().free == nullptr) {
    auto *chunk = table().slots.grow();
    if (chunk == nullptr)
      return fail(Code::limit, "this process has {} communicators, and cannot have more", table().slots.kMost);
    for (Slot &slot : *chunk) give_slot(slot);
  }
  Slot *slot = table().free;
  table().free = slot->next_free;
  return slot;
}

tutti_comm *publish(Slot &slot, const Comm &comm) {
  std::atomic_ref(slot.comm.world).store(comm.world, std::memory_order_relaxed);  // as world_of() reads it
  slot.comm.communicator = comm.communicator;
  return reinterpret_cast<tutti_comm *>(table().slots.publish(slot));
}

}  // namespace

Result<tutti_comm *> make_handle(std::unique_ptr<World> world) {
  const std::scoped_lock lock(table().mutex);
  TUTTI_TRY(Slot * slot, take_slot());
  slot->world = std::move(world);
  return publish(*slot, {slot->world.get(), &slot->world->communicator()});
}

Result<tutti_comm *> make_handle(const Comm &comm) {
  const std::scoped_lock lock(table().mutex);
  TUTTI_TRY(Slot * slot, take_slot());
  return publish(*slot, comm);
}

const Comm *find_comm(const tutti_comm *handle) {
  const Slot *slot = table().slots.find(value_of(handle));
  return slot != nullptr ? &slot->comm : nullptr;
}

void begin_free(const tutti_comm *handle) {
  const std::scoped_lock lock(table().mutex);
  Slot *slot = table().slots.find(value_of(handle));
  TUTTI_CHECK(slot != nullptr);
  slot->ending = value_of(handle);
  slot->handle.store(0, std::memory_order_release);
}

void end_free(const tutti_comm *handle) {
  std::unique_ptr<World> world;  // ends outside of the lock: its threads are waited for
  const std::scoped_lock lock(table().mutex);
  Slot &slot = *table().slots.slot_of(value_of(handle));
  TUTTI_CHECK(slot.ending == value_of(handle));
  world = std::move(slot.world);
  give_slot(slot);
  if (!world) return;
  table().slots.each([&](Slot &other) {
    if (other.handle != 0 && other.comm.world == world.get()) give_slot(other);
  });
}

bool abort_world(const tutti_comm *handle) {
  const std::scoped_lock lock(table().mutex);
  const Slot *slot = table().slots.slot_of(value_of(handle));
  if (slot == nullptr || (slot->handle != value_of(handle) && slot->ending != value_of(handle))) return false;
  slot->comm.world->abort();
  return true;
}

}  // namespace tutti::api

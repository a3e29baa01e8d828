// SPDX-License-Identifier: BSD-3-Clause
#include "api/handle.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/check.h"

namespace tutti::api {
namespace {

// Communicators at once in one process: two worlds full of them. Memory that was never used costs nothing.
constexpr int kMarkBits = 4, kSlotBits = 17;
constexpr std::size_t kSlots = std::size_t{1} << kSlotBits;
// Odd, so that a handle is never a plausible pointer.
constexpr std::uintptr_t kMark = 0x5;

struct Slot {
  std::atomic<std::uintptr_t> handle{0};
  std::uintptr_t ending = 0;  // the handle while it is being freed
  std::uintptr_t uses = 0;
  Comm comm;
  std::unique_ptr<World> world;  // where it is the world's
  std::uint32_t next_free = 0;   // 1 + the index of another, or 0
};

// Process-wide by nature: the C interface's handles are. Guarded by mutex, but for lookups, which read one atomic.
struct Table {
  std::mutex mutex;
  std::uint32_t used = 0;   // slots that have been used; all later ones are free
  std::uint32_t freed = 0;  // a list through those that are free again
  std::array<Slot, kSlots> slots;
};
// Never destroyed, since a handle may be used until the very end of the process, and made before any code runs, so that
// a lookup asks for nothing.
union Forever {
  constexpr Forever() : table() {}
  ~Forever() {}
  Table table;
};
constinit Forever forever;
Table &table() { return forever.table; }

Slot &slot_of(std::uintptr_t handle) { return table().slots[handle >> kMarkBits & (kSlots - 1)]; }

// With the mutex held. Null when all are in use.
Slot *take_slot() {
  std::uint32_t index = table().used;
  if (table().freed != 0) {
    index = table().freed - 1;
    table().freed = table().slots[index].next_free;
  } else if (index < kSlots) {
    ++table().used;
  } else {
    return nullptr;
  }
  return &table().slots[index];
}

tutti_comm *publish(Slot &slot, const Comm &comm) {
  slot.comm = comm;
  const auto index = static_cast<std::uintptr_t>(&slot - table().slots.data());
  const std::uintptr_t handle = (++slot.uses << (kSlotBits + kMarkBits)) | (index << kMarkBits) | kMark;
  slot.handle.store(handle, std::memory_order_release);  // pairs with find_comm: what it names is there before its name
  return reinterpret_cast<tutti_comm *>(handle);
}

void give_slot(Slot &slot) {
  slot.handle.store(0, std::memory_order_release);
  slot.ending = 0;
  slot.comm = {};
  slot.next_free = table().freed;
  table().freed = static_cast<std::uint32_t>(&slot - table().slots.data()) + 1;
}

}  // namespace

tutti_comm *make_handle(std::unique_ptr<World> world) {
  const std::scoped_lock lock(table().mutex);
  Slot *slot = take_slot();
  TUTTI_CHECK(slot != nullptr, "more than {} communicators in one process", kSlots);
  slot->world = std::move(world);
  return publish(*slot, {slot->world.get(), &slot->world->communicator()});
}

Result<tutti_comm *> make_handle(const Comm &comm) {
  const std::scoped_lock lock(table().mutex);
  Slot *slot = take_slot();
  if (slot == nullptr) return fail(Code::limit, "this process has {} communicators, and cannot have more", kSlots);
  return publish(*slot, comm);
}

const Comm *find_comm(const tutti_comm *handle) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if ((value & ((1u << kMarkBits) - 1)) != kMark) return nullptr;
  Slot &slot = slot_of(value);
  return slot.handle.load(std::memory_order_acquire) == value ? &slot.comm : nullptr;
}

Comm begin_free(const tutti_comm *handle) {
  const std::scoped_lock lock(table().mutex);
  const Comm *comm = find_comm(handle);
  if (comm == nullptr) return {};
  Slot &slot = slot_of(reinterpret_cast<std::uintptr_t>(handle));
  slot.ending = reinterpret_cast<std::uintptr_t>(handle);
  slot.handle.store(0, std::memory_order_release);
  return *comm;
}

void end_free(const tutti_comm *handle) {
  std::unique_ptr<World> world;  // ends outside of the lock: its threads are waited for
  const std::scoped_lock lock(table().mutex);
  Slot &slot = slot_of(reinterpret_cast<std::uintptr_t>(handle));
  TUTTI_CHECK(slot.ending == reinterpret_cast<std::uintptr_t>(handle));
  world = std::move(slot.world);
  give_slot(slot);
  if (!world) return;
  for (std::uint32_t i = 0; i < table().used; ++i)
    if (table().slots[i].comm.world == world.get()) give_slot(table().slots[i]);
}

bool abort_world(const tutti_comm *handle) {
  const std::scoped_lock lock(table().mutex);
  Slot &slot = slot_of(reinterpret_cast<std::uintptr_t>(handle));
  const Comm *comm = find_comm(handle);
  if (comm == nullptr && slot.ending != 0 && slot.ending == reinterpret_cast<std::uintptr_t>(handle)) comm = &slot.comm;
  if (comm == nullptr) return false;
  comm->world->abort();
  return true;
}

}  // namespace tutti::api

// SPDX-License-Identifier: BSD-3-Clause
#include "api/handle.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/check.h"

namespace tutti::api {
namespace {

// More worlds than this at once in one process would need as many full meshes.
constexpr std::size_t kSlots = 1024;
// Odd, so that a handle is never a plausible pointer.
constexpr std::uintptr_t kMark = 0x5;
constexpr int kMarkBits = 4, kSlotBits = 10;

struct Slot {
  std::atomic<std::uintptr_t> handle{0};
  std::uintptr_t ending = 0;  // the handle while its world is being freed
  std::uintptr_t uses = 0;
  std::unique_ptr<World> world;
};

// Process-wide by nature: the C interface's handles are. Guarded by mutex, but for lookups, which read one atomic.
struct Table {
  std::mutex mutex;
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

}  // namespace

tutti_comm *make_handle(std::unique_ptr<World> world) {
  const std::scoped_lock lock(table().mutex);
  for (std::size_t index = 0; index < kSlots; ++index) {
    Slot &slot = table().slots[index];
    if (slot.world) continue;
    slot.world = std::move(world);
    const std::uintptr_t handle = (++slot.uses << (kSlotBits + kMarkBits)) | (index << kMarkBits) | kMark;
    slot.handle.store(handle, std::memory_order_release);  // pairs with find_world: the world is there before its name
    return reinterpret_cast<tutti_comm *>(handle);
  }
  TUTTI_CHECK(false, "more than {} worlds in one process", kSlots);
}

World *find_world(const tutti_comm *handle) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if ((value & ((1u << kMarkBits) - 1)) != kMark) return nullptr;
  Slot &slot = slot_of(value);
  return slot.handle.load(std::memory_order_acquire) == value ? slot.world.get() : nullptr;
}

World *begin_free(const tutti_comm *handle) {
  const std::scoped_lock lock(table().mutex);
  World *world = find_world(handle);
  if (world == nullptr) return nullptr;
  Slot &slot = slot_of(reinterpret_cast<std::uintptr_t>(handle));
  slot.ending = reinterpret_cast<std::uintptr_t>(handle);
  slot.handle.store(0, std::memory_order_release);
  return world;
}

void end_free(const tutti_comm *handle) {
  std::unique_ptr<World> world;  // ends outside of the lock: its threads are waited for
  const std::scoped_lock lock(table().mutex);
  Slot &slot = slot_of(reinterpret_cast<std::uintptr_t>(handle));
  TUTTI_CHECK(slot.ending == reinterpret_cast<std::uintptr_t>(handle));
  slot.ending = 0;
  world = std::move(slot.world);
}

bool abort_world(const tutti_comm *handle) {
  const std::scoped_lock lock(table().mutex);
  Slot &slot = slot_of(reinterpret_cast<std::uintptr_t>(handle));
  World *world = find_world(handle);
  if (world == nullptr && slot.ending != 0 && slot.ending == reinterpret_cast<std::uintptr_t>(handle))
    world = slot.world.get();
  if (world == nullptr) return false;
  world->abort();
  return true;
}

}  // namespace tutti::api

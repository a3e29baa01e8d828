// SPDX-License-Identifier: BSD-3-Clause
#include "api/handle.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/check.h"

namespace tutti::api {
namespace {

// Communicators at once in one process: two worlds full of them.
constexpr int kMarkBits = 4, kSlotBits = 17;
constexpr std::size_t kSlots = std::size_t{1} << kSlotBits;
// Odd, so that a handle is never a plausible pointer.
constexpr std::uintptr_t kMark = 0x5;

struct Slot {
  std::atomic<std::uintptr_t> handle{0};
  std::uintptr_t ending = 0;  // the handle while it is being freed
  std::uintptr_t uses = 0;
  std::uint32_t index = 0;
  Comm comm;
  std::unique_ptr<World> world;  // where it is the world's
  Slot *next_free = nullptr;
};
constexpr int kChunkBits = 8;
constexpr std::size_t kChunk = std::size_t{1} << kChunkBits;
using Chunk = std::array<Slot, kChunk>;

// Process-wide by nature: the C interface's handles are. Guarded by mutex, but for lookups, which read atomics.
struct Table {
  std::mutex mutex;
  std::uint32_t used = 0;  // slots that have been used; all later ones are free
  Slot *freed = nullptr;   // a list through those that are free again
  std::array<std::atomic<Chunk *>, kSlots / kChunk> chunks{};
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

// Null where no handle can be from.
Slot *slot_at(std::size_t index) {
  Chunk *chunk = table().chunks[index >> kChunkBits].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &(*chunk)[index & (kChunk - 1)];
}
Slot *slot_of(std::uintptr_t handle) { return slot_at(handle >> kMarkBits & (kSlots - 1)); }

// With the mutex held. Null when all are in use.
Slot *take_slot() {
  if (Slot *slot = table().freed; slot != nullptr) {
    table().freed = slot->next_free;
    return slot;
  }
  const std::uint32_t index = table().used;
  if (index == kSlots) return nullptr;
  if (index % kChunk == 0)  // pairs with slot_at: the chunk is there before a handle into it
    table().chunks[index >> kChunkBits].store(std::make_unique<Chunk>().release(), std::memory_order_release);
  ++table().used;
  Slot *slot = slot_at(index);
  slot->index = index;
  return slot;
}

tutti_comm *publish(Slot &slot, const Comm &comm) {
  slot.comm = comm;
  const std::uintptr_t handle =
      (++slot.uses << (kSlotBits + kMarkBits)) | (std::uintptr_t{slot.index} << kMarkBits) | kMark;
  slot.handle.store(handle, std::memory_order_release);  // pairs with find_comm: what it names is there before its name
  return reinterpret_cast<tutti_comm *>(handle);
}

void give_slot(Slot &slot) {
  slot.handle.store(0, std::memory_order_release);
  slot.ending = 0;
  slot.comm = {};
  slot.next_free = table().freed;
  table().freed = &slot;
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
  Slot *slot = slot_of(value);
  return slot != nullptr && slot->handle.load(std::memory_order_acquire) == value ? &slot->comm : nullptr;
}

Comm begin_free(const tutti_comm *handle) {
  const std::scoped_lock lock(table().mutex);
  const Comm *comm = find_comm(handle);
  if (comm == nullptr) return {};
  Slot &slot = *slot_of(reinterpret_cast<std::uintptr_t>(handle));
  slot.ending = reinterpret_cast<std::uintptr_t>(handle);
  slot.handle.store(0, std::memory_order_release);
  return *comm;
}

void end_free(const tutti_comm *handle) {
  std::unique_ptr<World> world;  // ends outside of the lock: its threads are waited for
  const std::scoped_lock lock(table().mutex);
  Slot &slot = *slot_of(reinterpret_cast<std::uintptr_t>(handle));
  TUTTI_CHECK(slot.ending == reinterpret_cast<std::uintptr_t>(handle));
  world = std::move(slot.world);
  give_slot(slot);
  if (!world) return;
  for (std::uint32_t i = 0; i < table().used; ++i)
    if (Slot &other = *slot_at(i); other.comm.world == world.get()) give_slot(other);
}

bool abort_world(const tutti_comm *handle) {
  const std::scoped_lock lock(table().mutex);
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  const Comm *comm = find_comm(handle);
  if (Slot *slot = slot_of(value); comm == nullptr && slot != nullptr && slot->ending != 0 && slot->ending == value)
    comm = &slot->comm;
  if (comm == nullptr) return false;
  comm->world->abort();
  return true;
}

}  // namespace tutti::api

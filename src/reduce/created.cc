// SPDX-License-Identifier: BSD-3-Clause
#include "reduce/created.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace tutti::reduce {
namespace {

// A handle: bit 30, 17 bits of generation, 13 bits of slot.
constexpr int kSlotBits = 13;
constexpr std::size_t kMaxSlots = std::size_t{1} << kSlotBits;
constexpr std::uint32_t kMark = 1u << 30, kGenerations = kMark >> kSlotBits;

struct Slot {
  Created created;
  std::uint32_t generation = 0;
  bool used = false;
};

class Table {
 public:
  std::int32_t add(const Created &created) {
    const std::scoped_lock lock(mutex_);
    std::size_t slot = slots_.size();
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else if (slot == kMaxSlots) {
      return -1;
    } else {
      slots_.emplace_back();
    }
    slots_[slot].created = created;
    slots_[slot].used = true;
    return static_cast<std::int32_t>(kMark | slots_[slot].generation << kSlotBits | slot);
  }
  std::optional<Created> find(std::int32_t handle) {
    const std::scoped_lock lock(mutex_);
    const Slot *slot = slot_of(handle);
    return slot != nullptr ? std::optional(slot->created) : std::nullopt;
  }
  bool remove(std::int32_t handle) {
    const std::scoped_lock lock(mutex_);
    Slot *slot = slot_of(handle);
    if (slot == nullptr) return false;
    slot->used = false;
    frees_.fetch_add(1, std::memory_order_release);
    slot->generation = (slot->generation + 1) % kGenerations;
    free_.push_back(static_cast<std::size_t>(slot - slots_.data()));
    return true;
  }

  // How often operators have been freed: what find() gave stays true while this does.
  std::uint64_t frees() const { return frees_.load(std::memory_order_acquire); }

 private:
  Slot *slot_of(std::int32_t handle) {
    if (!is_handle(handle)) return nullptr;
    const auto bits = static_cast<std::uint32_t>(handle);
    const std::size_t slot = bits % kMaxSlots;
    const std::uint32_t generation = (bits & (kMark - 1)) >> kSlotBits;
    if (slot >= slots_.size() || !slots_[slot].used || slots_[slot].generation != generation) return nullptr;
    return &slots_[slot];
  }

  std::mutex mutex_;
  std::atomic<std::uint64_t> frees_{0};
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
};

Table &table() {
  // Never destroyed: programs free operators as late as they like.
  static Table &only = *new Table;
  return only;
}

}  // namespace

Result<std::int32_t> create(const Created &created) {
  const std::int32_t handle = table().add(created);
  if (handle < 0)
    return fail(Code::limit, "{} operators exist, which is the most: free some with tutti_op_free", kMaxSlots);
  return handle;
}

std::optional<Created> find(std::int32_t handle) {
  // What this thread looked up last, for loops that use one operator: without the lock.
  struct Last {
    std::int32_t handle = 0;
    std::uint64_t frees = 0;
    std::optional<Created> created;
  };
  thread_local Last last;
  const std::uint64_t frees = table().frees();  // before the table is read: a free meanwhile makes the next call look
  if (last.handle != handle || last.frees != frees) last = {handle, frees, table().find(handle)};
  if (!last.created) last.handle = 0;  // it may be made yet
  return last.created;
}
bool destroy(std::int32_t handle) { return table().remove(handle); }

}  // namespace tutti::reduce

// SPDX-License-Identifier: BSD-3-Clause
//
// Slots under handles that C callers hold. A handle is no address: it names a slot and how often that slot has been
// used, so that a stale or freed one is told apart from a live one without touching freed memory. Slots come in chunks,
// whose memory is never given to anything else.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tutti::api {

// What a slot begins with.
struct HandleSlot {
  std::atomic<std::uintptr_t> handle{0};  // 0: not live
  std::uintptr_t uses = 0;
  std::uint32_t index = 0;
};

// The mark tells kinds of handles apart; it is odd, so that a handle is never a plausible pointer.
template <class Slot, std::uintptr_t kMark, int kIndexBits>
class HandleTable {
  static constexpr int kMarkBits = 4, kChunkBits = 8;
  static_assert(kMark % 2 == 1 && kMark >> kMarkBits == 0);

 public:
  static constexpr std::size_t kMost = std::size_t{1} << kIndexBits, kChunk = std::size_t{1} << kChunkBits;
  static constexpr std::size_t kChunks = kMost / kChunk;
  using Chunk = std::array<Slot, kChunk>;

  // Slots that were never used; null when there are as many as there can be. One thread at a time.
  Chunk *grow() {
    if (used_ == kChunks) return nullptr;
    auto chunk = std::make_unique<Chunk>();
    for (std::uint32_t i = 0; i < kChunk; ++i) (*chunk)[i].index = (used_ << kChunkBits) + i;
    chunks_[used_++].store(chunk.get(), std::memory_order_release);  // pairs with slot_of
    return chunk.release();
  }

  // From here on find() knows it.
  static std::uintptr_t publish(Slot &slot) {
    const std::uintptr_t handle =
        (++slot.uses << (kIndexBits + kMarkBits)) | (std::uintptr_t{slot.index} << kMarkBits) | kMark;
    slot.handle.store(handle, std::memory_order_release);  // pairs with find: what it names is there before its name
    return handle;
  }

  // Any thread. The slot that a handle names, live or not; null for what can be none.
  Slot *slot_of(std::uintptr_t handle) const {
    if ((handle & ((1u << kMarkBits) - 1)) != kMark) return nullptr;
    const std::size_t index = handle >> kMarkBits & (kMost - 1);
    Chunk *chunk = chunks_[index >> kChunkBits].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &(*chunk)[index & (kChunk - 1)];
  }
  // Any thread; null for what is not live.
  Slot *find(std::uintptr_t handle) const {
    Slot *slot = slot_of(handle);
    return slot != nullptr && slot->handle.load(std::memory_order_acquire) == handle ? slot : nullptr;
  }

  // Calls use(slot) for every slot there is, while none are added.
  template <class Use>
  void each(const Use &use) {
    for (std::uint32_t chunk = 0; chunk < used_; ++chunk)
      for (Slot &slot : *chunks_[chunk].load(std::memory_order_relaxed)) use(slot);
  }

 private:
  std::array<std::atomic<Chunk *>, kChunks> chunks_{};
  std::uint32_t used_ = 0;
};

// Process-wide by nature: the C interface's handles are. Never destroyed, since a handle may be used until the very end
// of the process, and made before any code runs, so that a lookup asks for nothing.
template <class T>
union Forever {
  constexpr Forever() : value() {}
  ~Forever() {}
  T value;
};

}  // namespace tutti::api

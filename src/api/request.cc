// SPDX-License-Identifier: BSD-3-Clause
#include "api/request.h"

#include <mutex>

#include "base/check.h"

namespace tutti::api {
namespace {

constexpr int kMarkBits = 4, kIndexBits = 22, kChunkBits = 8;
constexpr std::uintptr_t kMark = 0x9;  // odd, and not a communicator's
constexpr std::size_t kChunk = std::size_t{1} << kChunkBits, kChunks = std::size_t{1} << (kIndexBits - kChunkBits);

using Chunk = std::array<Request, kChunk>;

// Process-wide, since handles are; never destroyed, since one may be used until the very end of the process.
struct Table {
  std::mutex mutex;
  std::array<std::atomic<Chunk *>, kChunks> chunks{};
  std::uint32_t used = 0;
  std::array<std::uint32_t, kChunks> free{};  // a stack
  std::uint32_t free_chunks = 0;
};
union Forever {
  constexpr Forever() : table() {}
  ~Forever() {}
  Table table;
};
constinit Forever forever;
Table &table() { return forever.table; }

Result<std::uint32_t> take_chunk() {
  const std::scoped_lock lock(table().mutex);
  if (table().free_chunks != 0) return table().free[--table().free_chunks];
  if (table().used == kChunks)
    return fail(Code::limit, "this process has {} requests, and cannot have more: wait for some", kChunks * kChunk);
  const std::uint32_t number = table().used;
  auto chunk = std::make_unique<Chunk>();
  for (std::uint32_t i = 0; i < kChunk; ++i) (*chunk)[i].index = (number << kChunkBits) + i;
  // Pairs with find_request: the chunk is there before a handle into it.
  table().chunks[number].store(chunk.release(), std::memory_order_release);
  ++table().used;
  return number;
}

Chunk &chunk_of(std::uint32_t number) { return *table().chunks[number].load(std::memory_order_acquire); }

}  // namespace

Requests::~Requests() {
  const std::scoped_lock lock(table().mutex);
  for (const std::uint32_t number : chunks_) {
    for (Request &request : chunk_of(number)) {
      request.handle.store(0, std::memory_order_relaxed);
      request.active = Request::Active::nothing;
      request.repeated.reset();
    }
    table().free[table().free_chunks++] = number;
  }
}

Result<Request *> Requests::take() {
  if (free_.empty()) [[unlikely]] {
    TUTTI_TRY(const std::uint32_t number, take_chunk());
    chunks_.push_back(number);
    free_.reserve(chunks_.size() * kChunk);
    Chunk &chunk = chunk_of(number);
    for (std::size_t i = kChunk; i-- > 0;) free_.push_back(&chunk[i]);
  }
  Request &request = *free_.back();
  free_.pop_back();
  request.world = &world_;
  const std::uintptr_t handle =
      (++request.uses << (kIndexBits + kMarkBits)) | (std::uintptr_t{request.index} << kMarkBits) | kMark;
  request.handle.store(handle, std::memory_order_release);
  return &request;
}

void Requests::give(Request &request) {
  request.handle.store(0, std::memory_order_relaxed);
  request.active = Request::Active::nothing;
  if (request.repeated) request.repeated.reset();
  free_.push_back(&request);
}

Request *find_request(const tutti_request *handle) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if ((value & ((1u << kMarkBits) - 1)) != kMark) return nullptr;
  const auto index = static_cast<std::uint32_t>(value >> kMarkBits & ((1u << kIndexBits) - 1));
  Chunk *chunk = table().chunks[index >> kChunkBits].load(std::memory_order_acquire);
  if (chunk == nullptr) return nullptr;
  Request &request = (*chunk)[index & (kChunk - 1)];
  return request.handle.load(std::memory_order_acquire) == value ? &request : nullptr;
}

}  // namespace tutti::api

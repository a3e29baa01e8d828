// SPDX-License-Identifier: BSD-3-Clause
#include "api/request.h"

#include <mutex>

#include "base/check.h"

namespace tutti::api {
namespace {

// Guarded by the mutex, but for lookups.
struct Chunks {
  std::mutex mutex;
  RequestTable requests;
  std::array<RequestTable::Chunk *, RequestTable::kChunks> free{};  // a stack of chunks that worlds have given back
  std::size_t free_chunks = 0;
};
constinit Forever<Chunks> forever_chunks;
Chunks &chunks() { return forever_chunks.value; }

Result<RequestTable::Chunk *> take_chunk() {
  const std::scoped_lock lock(chunks().mutex);
  if (chunks().free_chunks != 0) return chunks().free[--chunks().free_chunks];
  RequestTable::Chunk *chunk = chunks().requests.grow();
  if (chunk == nullptr)
    return fail(Code::limit, "this process has {} requests, and cannot have more: wait for some", RequestTable::kMost);
  return chunk;
}

}  // namespace

Requests::~Requests() {
  const std::scoped_lock lock(chunks().mutex);
  for (RequestTable::Chunk *chunk : chunks_) {
    for (Request &request : *chunk) {
      request.handle.store(0, std::memory_order_relaxed);
      request.active = Request::Active::nothing;
      request.repeated.reset();
    }
    chunks().free[chunks().free_chunks++] = chunk;
  }
}

Result<Request *> Requests::take() {
  if (free_.empty()) [[unlikely]] {
    TUTTI_TRY(RequestTable::Chunk * chunk, take_chunk());
    chunks_.push_back(chunk);
    free_.reserve(chunks_.size() * chunk->size());
    for (std::size_t i = chunk->size(); i-- > 0;) {
      (*chunk)[i].world.store(&world_, std::memory_order_relaxed);
      free_.push_back(&(*chunk)[i]);
    }
  }
  Request &request = *free_.back();
  free_.pop_back();
  RequestTable::publish(request);
  return &request;
}

void Requests::give(Request &request) {
  request.handle.store(0, std::memory_order_relaxed);
  request.active = Request::Active::nothing;
  if (request.repeated) request.repeated.reset();
  free_.push_back(&request);
}

void Requests::outlive(comm::Communicator &communicator) {
  if (free_.size() == chunks_.size() * RequestTable::kChunk) return;  // none is in use: the usual case
  for (RequestTable::Chunk *chunk : chunks_) {
    for (Request &request : *chunk) {
      if (request.active != Request::Active::collective || request.communicator != &communicator) continue;
      TUTTI_CHECK(request.operation->done);
      request.outcome = communicator.finish(*request.operation);
      request.active = Request::Active::ended;
    }
  }
}

Request *find_request(const tutti_request *handle) {
  return chunks().requests.find(reinterpret_cast<std::uintptr_t>(handle));
}

}  // namespace tutti::api

// SPDX-License-Identifier: BSD-3-Clause
#include "mesh/receive_queue.h"

#include <cerrno>
#include <map>

namespace tutti::mesh {
namespace {

constexpr std::size_t kCacheLine = 64;

}  // namespace

Result<ReceiveQueue> ReceiveQueue::create(const MemorySource &source, std::uint32_t buffers,
                                          std::size_t payload_bytes) {
  ReceiveQueue queue;
  // One line more than the largest message: buffers of exactly a power of two would all begin in the same cache sets.
  queue.stride_ = (sizeof(link::Header) + payload_bytes + kCacheLine) / kCacheLine * kCacheLine + kCacheLine;
  TUTTI_TRY(queue.memory_, Memory::allocate(source, queue.stride_ * buffers, IBV_ACCESS_LOCAL_WRITE));
  TUTTI_TRY(queue.srq_, verbs::create_srq(*source.device, source.pd, static_cast<int>(buffers), 1, nullptr));
  queue.entries_.resize(buffers);
  queue.requests_.resize(buffers);
  queue.pieces_.resize(buffers);
  queue.spent_.reserve(buffers);
  for (std::uint32_t i = 0; i < buffers; ++i) queue.spent_.push_back(i);
  if (const int error = queue.post_spent(); error != 0)
    return fail_errno(Code::device, error, "cannot post {} buffers to the shared receive queue", buffers);
  queue.spent_.clear();
  return queue;
}

int ReceiveQueue::post_spent() {
  const std::size_t count = spent_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t index = spent_[i];
    pieces_[i] = {reinterpret_cast<std::uint64_t>(buffer(index)), static_cast<std::uint32_t>(stride_ - kCacheLine),
                  memory_.lkey()};
    requests_[i] = {index, i + 1 < count ? &requests_[i + 1] : nullptr, &pieces_[i], 1};
  }
  ibv_recv_wr *bad = nullptr;
  const int error = ibv_post_srq_recv(srq_.get(), requests_.data(), &bad);
  if (error != 0) return error;
  for (std::size_t i = 0; i < count; ++i) entries_[spent_[i]].state = State::posted;
  posted_ += static_cast<std::uint32_t>(count);
  return 0;
}

std::string ReceiveQueue::describe() const {
  std::map<std::int32_t, std::uint32_t> holders;
  for (const Entry &entry : entries_)
    if (entry.state == State::held) ++holders[entry.peer];
  std::string text = fmt::format("{} receive buffers: {} posted, {} held, {} to be posted", entries_.size(), posted_,
                                 held_, spent_.size());
  for (const auto &[peer, count] : holders) text += fmt::format("; {} from rank {}", count, peer);
  return text;
}

void ReceiveQueue::check() const {
  std::uint32_t counts[3] = {};
  for (const Entry &entry : entries_) ++counts[static_cast<int>(entry.state)];
  TUTTI_CHECK(counts[0] == posted_ && counts[1] == held_ && counts[2] == spent_.size() &&
                  posted_ + held_ + spent_.size() == entries_.size(),
              "the ledger does not add up: {}", describe());
}

}  // namespace tutti::mesh

// SPDX-License-Identifier: BSD-3-Clause
#include "mesh/receive_queue.h"

#include <algorithm>
#include <cerrno>

#include "mesh/queue_pair.h"

namespace tutti::mesh {

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
  for (std::uint32_t i = 0; i < buffers; ++i) {
    queue.pieces_[i] = {reinterpret_cast<std::uint64_t>(queue.buffer(i)),
                        static_cast<std::uint32_t>(queue.stride_ - kCacheLine), queue.memory_.lkey()};
    queue.requests_[i] = {kReceiveId | i, nullptr, &queue.pieces_[i], 1};
    queue.chain(i);
  }
  if (const int error = queue.refill([](std::int32_t, link::Class) {}); error != 0)
    return fail_errno(Code::device, error, "cannot post {} buffers to the shared receive queue", buffers);
  return queue;
}

std::map<std::int32_t, std::uint32_t> ReceiveQueue::holders() const {
  std::map<std::int32_t, std::uint32_t> counts;
  for (const Entry &entry : entries_)
    if (entry.state == State::held) ++counts[entry.peer];
  return counts;
}

std::pair<std::int32_t, std::uint32_t> ReceiveQueue::biggest_holder() const {
  std::pair<std::int32_t, std::uint32_t> biggest = {-1, 0};
  for (const auto &[peer, count] : holders())
    if (count > biggest.second) biggest = {peer, count};
  return biggest;
}

ReceiveQueue::Used ReceiveQueue::used() const {
  Used used;
  for (const Entry &entry : entries_)
    if (entry.state != State::posted && entry.peer >= 0)
      ++used[entry.peer][static_cast<std::size_t>(entry.message_class)];
  return used;
}

std::string ReceiveQueue::describe() const {
  std::string text =
      fmt::format("{} receive buffers: {} posted, {} held, {} to be posted", entries_.size(), posted_, held_, spent_);
  if (const std::uint32_t count = missing(); count != 0) text += fmt::format("; {} missing", count);
  for (const auto &[peer, count] : holders()) text += fmt::format("; {} from rank {}", count, peer);
  return text;
}

std::uint32_t ReceiveQueue::missing() const {
  const auto is_missing = [this](const Entry &entry) {
    return entry.state == State::posted && next_order_ - entry.order > entries_.size();
  };
  return static_cast<std::uint32_t>(std::ranges::count_if(entries_, is_missing));
}

void ReceiveQueue::check() const {
  std::uint32_t counts[3] = {};
  for (const Entry &entry : entries_) ++counts[static_cast<int>(entry.state)];
  TUTTI_CHECK(
      counts[0] == posted_ && counts[1] == held_ && counts[2] == spent_ && posted_ + held_ + spent_ == entries_.size(),
      "the ledger does not add up: {}", describe());
}

}  // namespace tutti::mesh

// SPDX-License-Identifier: BSD-3-Clause
//
// The shared receive queue of a device: its buffers, and the ledger that knows where each of them is.
//
// Invariants
// - Every buffer is posted, held (filled, and somebody reads it) or spent (to be posted again); the three add up.
// - A credit is granted again only once its buffer is posted: what peers may send never exceeds what is posted.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "link/header.h"
#include "mesh/memory.h"
#include "verbs/handle.h"

namespace tutti::mesh {

// Buffers beyond what is granted to peers: while all keep to their credits, so many are posted at any time.
inline constexpr std::uint32_t kReserve = 2;

class ReceiveQueue {
 public:
  // Creates the queue with `buffers` buffers of `payload_bytes` and a header each, all posted.
  static Result<ReceiveQueue> create(const MemorySource &source, std::uint32_t buffers, std::size_t payload_bytes);

  ibv_srq *srq() const { return srq_.get(); }
  std::byte *buffer(std::uint32_t index) const { return memory_.data() + index * stride_; }

  // A completion brought this buffer; from now on `peer` has it held by us for that class. Peer -1: it took no credit.
  void filled(std::uint32_t index, std::int32_t peer, link::Class message_class) {
    TUTTI_DCHECK(entries_[index].state == State::posted);
    Entry &entry = entries_[index];
    entry.state = State::held;
    entry.message_class = message_class;
    entry.peer = peer;
    --posted_;
    ++held_;
  }
  // Its content is consumed.
  void release(std::uint32_t index) {
    TUTTI_DCHECK(entries_[index].state == State::held);
    entries_[index].state = State::spent;
    --held_;
    chain(index);
  }
  std::size_t spent() const { return spent_; }
  std::uint32_t posted() const { return posted_; }
  std::uint32_t held() const { return held_; }
  // Posts all spent buffers in one list and calls granted(peer, class) for each. 0, or the errno of the post.
  template <class Granted>
  int refill(Granted &&granted) {
    if (spent_ == 0) return 0;
    ibv_recv_wr *bad = nullptr;
    if (const int error = ibv_post_srq_recv(srq_.get(), first_spent_, &bad); error != 0) return verbs::errno_of(error);
    for (const ibv_recv_wr *request = first_spent_; request != nullptr; request = request->next) {
      Entry &entry = entries_[static_cast<std::uint32_t>(request->wr_id)];
      entry.state = State::posted;
      entry.order = next_order_++;
      if (entry.peer >= 0) granted(entry.peer, entry.message_class);
    }
    posted_ += spent_;
    spent_ = 0;
    return 0;
  }

  std::size_t bytes() const { return memory_.bytes(); }
  // Buffers that count as posted though the queue cannot have them any more: it hands them out in the order of posting,
  // and since this one more were posted than there are, so that a later one has come back already. A message that is
  // half received, or was when its queue pair was destroyed, has it.
  std::uint32_t missing() const;
  std::uint32_t posted_in_all() const { return next_order_; }  // since the beginning; may wrap
  std::uint32_t buffers() const { return static_cast<std::uint32_t>(entries_.size()); }
  // Of each peer and class, the credits that are used up: their buffers are held or spent.
  using Used = std::map<std::int32_t, std::array<std::uint16_t, link::kClasses>>;
  Used used() const;
  // Who holds most, and how many; peer -1: nobody.
  std::pair<std::int32_t, std::uint32_t> biggest_holder() const;
  // Which buffers are where, in numbers, and who holds them, for people. check() aborts where the sums are wrong.
  std::string describe() const;
  void check() const;

 private:
  enum class State : std::uint8_t { posted, held, spent };
  struct Entry {
    State state = State::spent;
    link::Class message_class = link::Class::collective;
    std::int32_t peer = -1;
    std::uint32_t order = 0;  // of its last posting
  };
  void chain(std::uint32_t index) {
    ibv_recv_wr *request = &requests_[index];
    request->next = nullptr;
    if (spent_++ == 0) first_spent_ = request;
    else last_spent_->next = request;
    last_spent_ = request;
  }

  Memory memory_;
  verbs::SrqHandle srq_;
  std::size_t stride_ = 0;
  std::map<std::int32_t, std::uint32_t> holders() const;
  std::vector<Entry> entries_;
  // One request a buffer, made once; the spent ones are chained, ready to be posted.
  std::vector<ibv_recv_wr> requests_;
  std::vector<ibv_sge> pieces_;
  ibv_recv_wr *first_spent_ = nullptr, *last_spent_ = nullptr;
  std::uint32_t posted_ = 0, held_ = 0, spent_ = 0, next_order_ = 0;
};

}  // namespace tutti::mesh

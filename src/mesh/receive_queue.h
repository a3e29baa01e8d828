// SPDX-License-Identifier: BSD-3-Clause
//
// The shared receive queue of a device: its buffers, and the ledger that knows where each of them is.
//
// Invariants
// - Every buffer is posted, held (filled, and somebody reads it) or spent (to be posted again); the three add up.
// - A credit is granted again only once its buffer is posted: what peers may send never exceeds what is posted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "link/header.h"
#include "mesh/memory.h"
#include "verbs/handle.h"

namespace tutti::mesh {

class ReceiveQueue {
 public:
  // Creates the queue with `buffers` buffers of `payload_bytes` and a header each, all posted.
  static Result<ReceiveQueue> create(const MemorySource &source, std::uint32_t buffers, std::size_t payload_bytes);

  ibv_srq *srq() const { return srq_.get(); }
  std::byte *buffer(std::uint32_t index) const { return memory_.data() + index * stride_; }

  // A completion brought this buffer; from now on `peer` has it held by us for that class.
  void filled(std::uint32_t index, std::int32_t peer, link::Class message_class) {
    TUTTI_DCHECK(entries_[index].state == State::posted);
    entries_[index] = {State::held, message_class, peer};
    --posted_;
    ++held_;
  }
  // Its content is consumed.
  void release(std::uint32_t index) {
    TUTTI_DCHECK(entries_[index].state == State::held);
    entries_[index].state = State::spent;
    --held_;
    spent_.push_back(index);
  }
  std::size_t spent() const { return spent_.size(); }
  // Posts all spent buffers in one list and calls granted(peer, class) for each. 0, or the errno of the post.
  template <class Granted>
  int refill(Granted &&granted) {
    if (spent_.empty()) return 0;
    const int error = post_spent();
    if (error != 0) return error;
    for (const std::uint32_t index : spent_) granted(entries_[index].peer, entries_[index].message_class);
    spent_.clear();
    return 0;
  }

  std::size_t bytes() const { return memory_.bytes(); }
  // Which buffers are where, in numbers, and who holds them, for people. check() aborts where the sums are wrong.
  std::string describe() const;
  void check() const;

 private:
  enum class State : std::uint8_t { posted, held, spent };
  struct Entry {
    State state = State::spent;
    link::Class message_class = link::Class::collective;
    std::int32_t peer = -1;
  };
  int post_spent();

  Memory memory_;
  verbs::SrqHandle srq_;
  std::size_t stride_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> spent_;
  std::vector<ibv_recv_wr> requests_;  // scratch of post_spent(), as long as the queue is deep
  std::vector<ibv_sge> pieces_;
  std::uint32_t posted_ = 0, held_ = 0;
};

}  // namespace tutti::mesh

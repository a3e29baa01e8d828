// SPDX-License-Identifier: BSD-3-Clause
//
// Messages of operations that this rank has not started yet, copied out of the receive queue so that their buffers go
// back at once. Bounded by the senders' windows (exec/windows.h).
//
// Invariant: calls are taken in the order of their numbers, so a ring of buckets with one for each call between the
// next and the furthest finds everything without searching, and grows only as ranks get further ahead than ever before.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/pool.h"
#include "comm/call.h"
#include "exec/execution.h"

namespace tutti::comm {

class Inbox {
 public:
  // The pool outlives the inbox.
  Inbox(Pool &pool, std::uint32_t first_call) : pool_(pool), buckets_(kFirstBuckets), next_(first_call) {}
  Inbox(const Inbox &) = delete;
  Inbox &operator=(const Inbox &) = delete;
  ~Inbox();

  bool empty() const { return count_ == 0; }
  // Copies the payload; the caller releases the record. Its call is not yet taken.
  void put(const mesh::Record &record);
  // Hands all arrivals of one call to receiver(arrival), in order of arrival, with their memory.
  template <class Receiver>
  void take(std::uint32_t call, Receiver &&receiver) {
    next_ = following(call);
    if (empty()) return;
    const Bucket bucket = std::exchange(bucket_of(call), Bucket{});
    for (std::uint32_t i = bucket.first; i != kNone;) {
      receiver(nodes_[i].arrival);
      const std::uint32_t following = std::exchange(nodes_[i].next, free_);
      free_ = std::exchange(i, following);
      --count_;
    }
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::size_t kFirstBuckets = 16;  // a power of two
  struct Node {
    exec::Arrival arrival;
    std::uint32_t next = kNone;
  };
  // The arrivals of one call: a list through the nodes.
  struct Bucket {
    std::uint32_t first = kNone, last = kNone;
  };
  Bucket &bucket_of(std::uint32_t call) { return buckets_[call & (buckets_.size() - 1)]; }
  void grow(std::uint32_t ahead);

  Pool &pool_;
  std::vector<Node> nodes_;
  std::uint32_t free_ = kNone;  // a list of nodes, too
  std::vector<Bucket> buckets_;
  std::uint32_t next_;  // the first call that is not yet taken
  std::size_t count_ = 0;
};

}  // namespace tutti::comm

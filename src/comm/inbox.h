// SPDX-License-Identifier: BSD-3-Clause
//
// Messages of operations that this rank has not started yet, copied out of the receive queue so that their buffers go
// back at once. Bounded by the senders' windows (exec/windows.h).
//
// Invariant: calls are numbered from 0 and taken in order, so a ring of buckets with one for each call between the next
// and the furthest finds everything without searching, and grows only as ranks get further ahead than ever before.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/execution.h"
#include "exec/pool.h"

namespace tutti::comm {

class Inbox {
 public:
  // The pool outlives the inbox.
  explicit Inbox(exec::Pool &pool) : pool_(pool), buckets_(kFirstBuckets) {}
  Inbox(const Inbox &) = delete;
  Inbox &operator=(const Inbox &) = delete;
  ~Inbox();

  bool empty() const { return count_ == 0; }
  // Copies the payload; the caller releases the record. Its call is not yet taken.
  void put(const mesh::Record &record);
  // Hands all arrivals of one call to receiver(arrival), in order of arrival, with their memory.
  template <class Receiver>
  void take(std::uint32_t call, Receiver &&receiver) {
    next_ = call + 1;
    if (empty()) return;
    std::vector<exec::Arrival> &bucket = bucket_of(call);
    for (const exec::Arrival &arrival : bucket) receiver(arrival);
    count_ -= bucket.size();
    bucket.clear();
  }

 private:
  static constexpr std::size_t kFirstBuckets = 16;  // a power of two
  std::vector<exec::Arrival> &bucket_of(std::uint32_t call) { return buckets_[call & (buckets_.size() - 1)]; }
  void grow(std::uint32_t distance);

  exec::Pool &pool_;
  std::vector<std::vector<exec::Arrival>> buckets_;
  std::uint32_t next_ = 0;  // the first call that is not yet taken
  std::size_t count_ = 0;
};

}  // namespace tutti::comm

// SPDX-License-Identifier: BSD-3-Clause
#include "comm/inbox.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace tutti::comm {

Inbox::~Inbox() {
  for (const Bucket &bucket : buckets_)
    for (std::uint32_t i = bucket.first; i != kNone; i = nodes_[i].next) pool_.give(nodes_[i].arrival.own);
}

void Inbox::put(const mesh::Record &record) {
  const std::uint32_t ahead = distance(next_, record.stream.call);
  TUTTI_CHECK(is_ahead(ahead), "a message of call {} came to the inbox after call {} began", record.stream.call,
              next_ - 1);
  if (ahead >= buckets_.size()) grow(ahead);
  exec::Arrival arrival = {.record = record, .own = pool_.take(record.bytes)};
  std::memcpy(arrival.own, record.payload, record.bytes);
  arrival.record.payload = arrival.own;
  if (free_ == kNone) {
    free_ = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  const std::uint32_t node = std::exchange(free_, nodes_[free_].next);
  nodes_[node] = {arrival, kNone};
  Bucket &bucket = bucket_of(record.stream.call);
  (bucket.first == kNone ? bucket.first : nodes_[bucket.last].next) = node;
  bucket.last = node;
  ++count_;
}

void Inbox::grow(std::uint32_t ahead) {
  std::vector<Bucket> old(std::bit_ceil(std::size_t{ahead} + 1));
  std::swap(old, buckets_);
  for (std::uint32_t i = 0; i < old.size(); ++i) bucket_of(next_ + i) = old[(next_ + i) & (old.size() - 1)];
}

}  // namespace tutti::comm

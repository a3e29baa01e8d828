// SPDX-License-Identifier: BSD-3-Clause
//
// Messages, or requests to send one, that no receive waits for yet. A receive takes the one that came first among those
// that it takes: of one source, the order of sending.
//
// Cost: constant where the receive names its source; where it does not, one such search for each rank.
#pragma once

#include <vector>

#include "match/operation.h"

namespace tutti::match {

// Its payload, if it has one, lies behind it.
struct Unexpected {
  std::int32_t source = 0;
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;
  SendOperation *own = nullptr;  // a send of this rank to itself that waits
  std::uint32_t request = 0;     // the sender's number
  bool requested = false;        // the message waits at its sender
  std::uint64_t number = 0;      // in the order of arrival
  Hook<Unexpected> hook;
  Unexpected *newer = nullptr, *older = nullptr;  // of the same source

  const std::byte *payload() const { return reinterpret_cast<const std::byte *>(this + 1); }
  std::byte *payload() { return reinterpret_cast<std::byte *>(this + 1); }
};

class Shelf {
 public:
  explicit Shelf(int ranks) : sources_(static_cast<std::size_t>(ranks)) {}

  void add(Unexpected &message);
  // What a receive of this source and tag, or of any, takes; null if nothing is there.
  Unexpected *find(std::int32_t source, std::int32_t tag) const;
  void remove(Unexpected &message);
  template <class Receiver>
  void drain(Receiver &&receiver) {
    queues_.drain(receiver);
    for (Source &source : sources_) source = {};
    count_ = 0;
  }

 private:
  struct Source {
    Unexpected *oldest = nullptr, *newest = nullptr;
  };
  Unexpected *find_of(std::int32_t source, std::int32_t tag) const {
    Unexpected *oldest = sources_[static_cast<std::size_t>(source)].oldest;
    return tag == kAnyTag || oldest == nullptr ? oldest : queues_.first(source, tag);
  }

  KeyedQueues<Unexpected> queues_;
  std::vector<Source> sources_;
  std::size_t count_ = 0;
  std::uint64_t next_number_ = 0;
};

}  // namespace tutti::match

// SPDX-License-Identifier: BSD-3-Clause
//
// Receives that wait for a message. A message goes to the receive that was posted first among those that take it (MPI
// 4.1, section 3.5).
//
// Cost: a message looks into one queue, or four where receives with wildcards are posted; each in constant time
// (keyed_queues.h), whatever the number of receives.
#pragma once

#include "match/operation.h"

namespace tutti::match {

class Posted {
 public:
  bool empty() const { return queues_.empty(); }
  void add(ReceiveOperation &receive) {
    receive.number = next_number_++;
    receive.posted = true;
    wild_ += is_wild(receive);
    queues_.push(receive);
  }
  // The receive that a message with this envelope belongs to, taken out; null if none waits for it.
  ReceiveOperation *take(std::int32_t source, std::int32_t tag) {
    ReceiveOperation *found = queues_.first(source, tag);
    if (wild_ != 0) [[unlikely]]
      found = first_of(first_of(found, queues_.first(source, kAnyTag)),
                       first_of(queues_.first(kAnySource, tag), queues_.first(kAnySource, kAnyTag)));
    if (found != nullptr) remove(*found);
    return found;
  }
  void remove(ReceiveOperation &receive) {
    queues_.remove(receive);
    wild_ -= is_wild(receive);
    receive.posted = false;
  }
  template <class Receiver>
  void drain(Receiver &&receiver) {
    wild_ = 0;
    queues_.drain([&](ReceiveOperation &receive) {
      receive.posted = false;
      receiver(receive);
    });
  }

 private:
  static std::size_t is_wild(const ReceiveOperation &receive) {
    return receive.source == kAnySource || receive.tag == kAnyTag ? 1 : 0;
  }
  static ReceiveOperation *first_of(ReceiveOperation *a, ReceiveOperation *b) {
    if (a == nullptr || b == nullptr) return a != nullptr ? a : b;
    return a->number < b->number ? a : b;
  }

  KeyedQueues<ReceiveOperation> queues_;
  std::size_t wild_ = 0;           // receives with a wildcard
  std::uint64_t next_number_ = 0;  // 64 bits do not wrap around
};

}  // namespace tutti::match

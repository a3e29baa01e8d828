// SPDX-License-Identifier: BSD-3-Clause
#include "match/unexpected.h"

namespace tutti::match {

void Shelf::add(Unexpected &message) {
  message.number = next_number_++;
  Source &source = sources_[static_cast<std::size_t>(message.source)];
  message.newer = nullptr;
  message.older = source.newest;
  (source.newest != nullptr ? source.newest->newer : source.oldest) = &message;
  source.newest = &message;
  queues_.push(message);
  ++count_;
}

void Shelf::remove(Unexpected &message) {
  Source &source = sources_[static_cast<std::size_t>(message.source)];
  (message.older != nullptr ? message.older->newer : source.oldest) = message.newer;
  (message.newer != nullptr ? message.newer->older : source.newest) = message.older;
  queues_.remove(message);
  --count_;
}

Unexpected *Shelf::find(std::int32_t source, std::int32_t tag) const {
  if (count_ == 0) return nullptr;
  if (source != kAnySource) return find_of(source, tag);
  Unexpected *first = nullptr;
  for (std::size_t rank = 0; rank < sources_.size(); ++rank) {
    Unexpected *found = find_of(static_cast<std::int32_t>(rank), tag);
    if (found != nullptr && (first == nullptr || found->number < first->number)) first = found;
  }
  return first;
}

}  // namespace tutti::match

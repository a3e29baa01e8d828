// SPDX-License-Identifier: BSD-3-Clause
//
// Queues by (source, tag), in which a receive finds its message and a message its receive: a hash table of intrusive
// queues, first in, first out. An element brings `source`, `tag` and `hook`; source and tag may be wildcards, which are
// keys like others here.
//
// Invariants
// - Nothing but a table that grows allocates: it has as many buckets as there ever were different keys at once.
// - Finding, appending and removing take constant time, averaged over tables that grow and keys that mix well.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::match {

template <class T>
struct Hook {
  T *next = nullptr;      // of the same key
  T *previous = nullptr;  // of the same key; the first one has the last one here
  T *chain = nullptr;     // of the first one: the first one of another key in the same bucket
};

template <class T>
class KeyedQueues {
 public:
  bool empty() const { return keys_ == 0; }
  std::size_t keys() const { return keys_; }
  std::size_t buckets() const { return buckets_.size(); }

  // The oldest of that key, or null.
  T *first(std::int32_t source, std::int32_t tag) const {
    for (T *head = buckets_[bucket_of(source, tag)]; head != nullptr; head = head->hook.chain)
      if (head->source == source && head->tag == tag) return head;
    return nullptr;
  }

  void push(T &element) {
    element.hook.next = nullptr;
    if (T *head = first(element.source, element.tag); head != nullptr) {
      T *last = head->hook.previous;
      last->hook.next = &element;
      element.hook.previous = last;
      head->hook.previous = &element;
      return;
    }
    if (keys_++ == buckets_.size()) grow();
    element.hook.previous = &element;
    put(element);
  }

  void remove(T &element) {
    T *next = element.hook.next;
    if (element.hook.previous->hook.next == &element) {  // not the first
      element.hook.previous->hook.next = next;
      (next != nullptr ? next : first(element.source, element.tag))->hook.previous = element.hook.previous;
      return;
    }
    T **place = &buckets_[bucket_of(element.source, element.tag)];
    while (*place != &element) place = &(*place)->hook.chain;
    if (next == nullptr) {
      *place = element.hook.chain;
      --keys_;
      return;
    }
    next->hook.previous = element.hook.previous;
    next->hook.chain = element.hook.chain;
    *place = next;
  }

  // Hands over every element, each once, and is empty then. The receiver may destroy it.
  template <class Receiver>
  void drain(Receiver &&receiver) {
    for (T *&bucket : buckets_) {
      for (T *head = bucket; head != nullptr;) {
        T *chain = head->hook.chain;
        for (T *element = head; element != nullptr;) {
          T *next = element->hook.next;
          receiver(*element);
          element = next;
        }
        head = chain;
      }
      bucket = nullptr;
    }
    keys_ = 0;
  }

 private:
  static constexpr std::size_t kFirstBuckets = 16;  // a power of two

  std::size_t bucket_of(std::int32_t source, std::int32_t tag) const {
    const std::uint64_t key = std::uint64_t{static_cast<std::uint32_t>(source)} << 32 | static_cast<std::uint32_t>(tag);
    // Fibonacci hashing: the product's upper bits depend on all of the key.
    return static_cast<std::size_t>(key * 0x9e3779b97f4a7c15 >> shift_);
  }
  void put(T &head) {
    T *&bucket = buckets_[bucket_of(head.source, head.tag)];
    head.hook.chain = bucket;
    bucket = &head;
  }
  void grow() {
    std::vector<T *> old(buckets_.size() * 2);
    std::swap(old, buckets_);
    shift_ = 64 - std::countr_zero(buckets_.size());
    for (T *head : old) {
      while (head != nullptr) {
        T *chain = head->hook.chain;
        put(*head);
        head = chain;
      }
    }
  }

  std::vector<T *> buckets_ = std::vector<T *>(kFirstBuckets);
  int shift_ = 64 - std::countr_zero(kFirstBuckets);
  std::size_t keys_ = 0;
};

}  // namespace tutti::match

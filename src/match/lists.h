// SPDX-License-Identifier: BSD-3-Clause
//
// Two small containers of operations, which are their callers' objects: a queue through their `next`, and a table that
// gives them numbers for the wire.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti::match {

// First in, first out. Invariant: an element is in one queue at a time.
template <class T>
class Queue {
 public:
  bool empty() const { return first_ == nullptr; }
  T *first() const { return first_; }
  void push(T &element) {
    element.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &element;
    last_ = &element;
  }
  T &pop() {
    T &element = *first_;
    first_ = element.next;
    return element;
  }

 private:
  T *first_ = nullptr, *last_ = nullptr;
};

// Invariant: a number names one element from add() to remove(). Grows to the most that were ever in it.
template <class T>
class Numbers {
 public:
  std::uint32_t add(T &element) {
    if (free_.empty()) {
      elements_.push_back(&element);
      return static_cast<std::uint32_t>(elements_.size() - 1);
    }
    const std::uint32_t number = free_.back();
    free_.pop_back();
    elements_[number] = &element;
    return number;
  }
  // Null where a peer has made the number up.
  T *find(std::uint32_t number) const { return number < elements_.size() ? elements_[number] : nullptr; }
  void remove(std::uint32_t number) {
    elements_[number] = nullptr;
    free_.push_back(number);
  }
  template <class Receiver>
  void drain(Receiver &&receiver) {
    for (T *element : elements_)
      if (element != nullptr) receiver(*element);
    elements_.clear();
    free_.clear();
  }

 private:
  std::vector<T *> elements_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tutti::match

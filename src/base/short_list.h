// SPDX-License-Identifier: BSD-3-Clause
//
// A list of small plain values whose number has a bound when it is made: in place up to kInPlace of them, so that
// nothing is allocated where they are few, as they are in calls that are made often.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "base/check.h"

namespace tutti {

template <class T, std::size_t kInPlace = 16>
class ShortList {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ShortList() = default;
  explicit ShortList(std::size_t most) : most_(std::max(most, kInPlace)) {
    if (most > kInPlace) many_ = std::make_unique<T[]>(most);
  }
  ShortList(ShortList &&other) noexcept : many_(std::move(other.many_)), most_(other.most_), size_(other.size_) {
    if (!many_) std::copy_n(other.few_.begin(), size_, few_.begin());
    other.most_ = kInPlace;
    other.size_ = 0;
  }
  ShortList &operator=(ShortList &&) = delete;

  void push_back(T value) {
    TUTTI_CHECK(size_ < most_);
    data()[size_++] = value;
  }
  T *data() { return many_ ? many_.get() : few_.data(); }
  const T *data() const { return many_ ? many_.get() : few_.data(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T *begin() const { return data(); }
  const T *end() const { return data() + size_; }
  const T &operator[](std::size_t i) const { return data()[i]; }

 private:
  std::unique_ptr<T[]> many_;
  std::array<T, kInPlace> few_;
  std::size_t most_ = kInPlace, size_ = 0;
};

}  // namespace tutti

// SPDX-License-Identifier: BSD-3-Clause
//
// A generator whose draws depend on its seed alone, on every machine (the standard's distributions do not promise
// that).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace tutti::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t value = state_ += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }
  std::uint64_t below(std::uint64_t end) { return next() % end; }
  // Both ends included.
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return first + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(last - first) + 1));
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace tutti::test

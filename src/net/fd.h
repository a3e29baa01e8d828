// SPDX-License-Identifier: BSD-3-Clause
//
// A file descriptor that closes itself. Invariant: one owner; -1 means none.
#pragma once

#include <unistd.h>

#include <utility>

namespace tutti::net {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd &&other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd &operator=(Fd &&other) noexcept {
    if (this != &other) reset(std::exchange(other.number_, -1));
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  // close(2) is not repeated on EINTR: on Linux the descriptor is gone by then, and may be another thread's already.
  void reset(int number = -1) {
    if (number_ >= 0) ::close(number_);
    number_ = number;
  }

 private:
  int number_ = -1;
};

}  // namespace tutti::net

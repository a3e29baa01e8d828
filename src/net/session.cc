// SPDX-License-Identifier: BSD-3-Clause
#include "net/session.h"

#include "base/check.h"

namespace tutti::net {

void Session::collect() {
  const Bytes hello = hello_.take_output();
  output_.insert(output_.end(), hello.begin(), hello.end());
  if (state_ != State::hello) return;
  switch (hello_.state()) {
    case Hello::State::underway: break;
    case Hello::State::done:
      state_ = State::open;
      output_.insert(output_.end(), waiting_.begin(), waiting_.end());
      waiting_ = {};
      break;
    case Hello::State::stranger: state_ = State::stranger; break;
    case Hello::State::other_version: state_ = State::other_version; break;
  }
}

void Session::receive(std::span<const std::byte> bytes, std::int64_t now) {
  tick(now);
  if (state_ == State::hello) {
    bytes = bytes.subspan(hello_.feed(bytes));
    collect();
  }
  if (state_ == State::open && !reader_.feed(bytes)) state_ = State::bad_frame;
}

void Session::tick(std::int64_t now) {
  if (state_ == State::hello && now >= hello_until_) state_ = State::silent;
}

void Session::send(std::span<const std::byte> payload) {
  append_frame(state_ == State::open ? output_ : waiting_, payload);
}

std::optional<Bytes> Session::next_message() { return reader_.next(); }

std::span<const std::byte> Session::output() const { return std::span(output_).subspan(sent_); }

void Session::sent(std::size_t bytes) {
  TUTTI_CHECK(bytes <= output_.size() - sent_);
  sent_ += bytes;
  if (sent_ < output_.size()) return;
  output_.clear();
  sent_ = 0;
}

}  // namespace tutti::net

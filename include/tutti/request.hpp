// SPDX-License-Identifier: BSD-3-Clause
//
// Operations that have been started, and calls that are made again and again: part of tutti.hpp, which includes it.
#ifndef TUTTI_REQUEST_HPP
#define TUTTI_REQUEST_HPP

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tutti/error.hpp"

namespace tutti {
inline namespace v0 {

// What a message or a probe found.
struct Status {
  int source = TUTTI_ANY_SOURCE, tag = TUTTI_ANY_TAG;
  std::size_t bytes = 0;
};

// An operation that has been started. Its buffers, and an operator of make_op, have to stay until it is done. One that
// goes while it is active ends all traffic of its world (tutti_abort): its buffers may go, too, and nobody waits here.
class [[nodiscard]] Request {
 public:
  Request() = default;
  Request(Request &&other) noexcept
      : request_(std::exchange(other.request_, nullptr)), comm_(std::exchange(other.comm_, nullptr)) {}
  Request &operator=(Request &&other) noexcept {
    if (this != &other) {
      release();
      request_ = std::exchange(other.request_, nullptr);
      comm_ = std::exchange(other.comm_, nullptr);
    }
    return *this;
  }
  Request(const Request &) = delete;
  Request &operator=(const Request &) = delete;
  ~Request() { release(); }

  // Until it is done; throws how it ended. Of a receive: what has come. Done at once where nothing is active.
  Status wait() {
    tutti_status status = {};
    detail::check(tutti_wait(&request_, &status));
    return {status.source, status.tag, static_cast<std::size_t>(status.bytes)};
  }
  // Whether it is done by now; then as wait().
  bool test() {
    std::int32_t done = 0;
    detail::check(tutti_test(&request_, &done, nullptr));
    return done != 0;
  }
  bool active() const noexcept { return request_ != nullptr; }
  tutti_request *c() const noexcept { return request_; }

 private:
  friend class Comm;
  explicit Request(tutti_comm *comm) : comm_(comm) {}
  void release() noexcept {
    std::int32_t done = 0;
    if (request_ == nullptr || (tutti_test(&request_, &done, nullptr) == TUTTI_SUCCESS && done != 0)) return;
    if (request_ != nullptr) static_cast<void>(tutti_abort(comm_));
    request_ = nullptr;
  }

  tutti_request *request_ = nullptr;
  tutti_comm *comm_ = nullptr;
};

// A call that is made again and again (tutti_call_init). Started on all ranks in the same order as their other calls.
class [[nodiscard]] Persistent {
 public:
  Persistent(Persistent &&other) noexcept : request_(std::exchange(other.request_, nullptr)) {}
  Persistent &operator=(Persistent &&other) noexcept {
    std::swap(request_, other.request_);
    return *this;
  }
  Persistent(const Persistent &) = delete;
  Persistent &operator=(const Persistent &) = delete;
  // Waits where it is active.
  ~Persistent() {
    static_cast<void>(tutti_wait(&request_, nullptr));
    static_cast<void>(tutti_request_free(&request_));
  }
  void start() { detail::check(tutti_start(request_)); }
  void wait() { detail::check(tutti_wait(&request_, nullptr)); }
  bool test() {
    std::int32_t done = 0;
    detail::check(tutti_test(&request_, &done, nullptr));
    return done != 0;
  }

 private:
  friend class Comm;
  Persistent() = default;
  tutti_request *request_ = nullptr;
};

}  // namespace v0
}  // namespace tutti
#endif

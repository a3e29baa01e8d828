// SPDX-License-Identifier: BSD-3-Clause
//
// Reaches one of several endpoints, whichever first proves the job's key, by trying all of them at once and again until
// its owner gives up: where a rank starts late, or a port turns out to be someone else's, nothing is lost but time.
// Polled by its owner's loop.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "net/connection.h"

namespace tutti::net {

class Dialer {
 public:
  Dialer(std::vector<Endpoint> targets, const Key &key, std::size_t frame_limit);

  // A connection whose other end has proved the key, once there is one.
  std::unique_ptr<Connection> service(std::int64_t now);
  void add_polls(std::vector<pollfd> &polls) const;
  std::int64_t next_time() const;

  // The most telling failure so far ("10.0.0.3:29500: Connection refused (ECONNREFUSED)").
  std::string trouble() const;
  // The other version's number if an end that knows the key speaks another version; else 0.
  std::uint32_t other_version() const { return other_version_; }
  // How often every target has failed by now: that of the one that failed least.
  int failures() const;

 private:
  struct Attempt {
    Endpoint target;
    std::unique_ptr<Connection> connection;
    bool connecting = false;
    std::int64_t retry_at = 0;
    std::int64_t pause = 0;
    int failures = 0;
    std::string failure;
    int failure_weight = 0;  // how much a failure tells: someone who answered wrongly says more than nobody at all
  };
  void start(Attempt &attempt, std::int64_t now);
  bool advance(Attempt &attempt, std::int64_t now);
  void failed(Attempt &attempt, std::int64_t now, std::string why, int weight);

  Key key_;
  std::size_t frame_limit_;
  std::vector<Attempt> attempts_;
  std::uint32_t other_version_ = 0;
};

}  // namespace tutti::net

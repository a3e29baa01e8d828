// SPDX-License-Identifier: BSD-3-Clause
//
// Where a rank is reached: listens, and lets through who proves the job's key and then says who it is (its first
// message). Everyone else is dropped without disturbing the rest. Polled by its owner's loop.
// Invariant: the number of connections on their way in is bounded; where room is needed, the oldest that has shown no
// sign of the key goes, and never one that has: strangers push out strangers only.
#pragma once

#include <poll.h>

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "net/connection.h"

namespace tutti::net {

class Gate {
 public:
  Gate(std::vector<Fd> listeners, const Key &key, std::size_t frame_limit, std::size_t most_pending)
      : listeners_(std::move(listeners)), key_(key), frame_limit_(frame_limit), most_pending_(most_pending) {}

  struct Arrival {
    std::unique_ptr<Connection> connection;
    Bytes first_message;
  };
  std::vector<Arrival> service(std::int64_t now);
  void add_polls(std::vector<pollfd> &polls) const;
  std::int64_t next_time() const;  // when service() is due at the latest

  // What kept ranks from arriving, for the error at the deadline; empty if nothing did.
  const std::string &trouble() const { return trouble_; }
  // The other version's number if an end that knows the key speaks another version; else 0.
  std::uint32_t other_version() const { return other_version_; }

 private:
  void accept_all(std::int64_t now);
  bool make_room(std::int64_t now);

  std::vector<Fd> listeners_;
  Key key_;
  std::size_t frame_limit_;
  std::size_t most_pending_;
  std::list<std::unique_ptr<Connection>> pending_;  // oldest first
  std::int64_t resume_at_ = 0;  // listeners rest until then, while the process is out of descriptors
  std::string trouble_;
  std::uint32_t other_version_ = 0;
};

}  // namespace tutti::net

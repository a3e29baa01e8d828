// SPDX-License-Identifier: BSD-3-Clause
//
// A socket with its session: moves bytes between the two as far as they go without waiting. The owner polls `events()`
// on `fd()` and calls service() when something may have happened; calling it for no reason is harmless.
#pragma once

#include <poll.h>

#include <string>

#include "net/session.h"
#include "net/socket.h"

namespace tutti::net {

class Connection {
 public:
  Connection(Fd socket, Session session) : socket_(std::move(socket)), session_(std::move(session)) {}

  void service(std::int64_t now) {
    receive(now);
    flush();
  }
  void receive(std::int64_t now);  // only reads
  void flush();                    // only writes
  Session &session() { return session_; }
  const Session &session() const { return session_; }
  const Fd &socket() const { return socket_; }
  short events() const { return static_cast<short>(POLLIN | (session_.output().empty() ? 0 : POLLOUT)); }
  // The stream ended, broke, or was refused: no more messages than those already received.
  bool over() const { return ended_ || session_.failed(); }
  // Why it is over: "closed the connection", "Connection reset by peer (ECONNRESET)", ...
  std::string ending() const;
  bool proved() const { return session_.state() == Session::State::open; }

 private:
  Fd socket_;
  Session session_;
  bool ended_ = false;
  int error_ = 0;
};

}  // namespace tutti::net

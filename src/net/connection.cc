// SPDX-License-Identifier: BSD-3-Clause
#include "net/connection.h"

#include <array>

namespace tutti::net {

void Connection::receive(std::int64_t now) {
  // What has arrived is read before silence is judged: after a pause of this process the answer may be there already.
  std::array<std::byte, 65536> buffer;
  while (!over()) {
    const Transfer in = receive_some(socket_, buffer);
    if (in.bytes > 0) session_.receive(std::span(buffer).first(in.bytes), now);
    if (in.ended) {
      ended_ = true;
      error_ = in.error;
    }
    if (in.bytes < buffer.size()) break;
  }
  if (!over()) session_.tick(now);
}

void Connection::flush() {
  // A failed session may still have an answer to send (its version).
  while (!ended_ && !session_.output().empty()) {
    const Transfer out = send_some(socket_, session_.output());
    session_.sent(out.bytes);
    // A broken pipe is left to the next read, which first gets what the other end said before it closed.
    if (out.bytes == 0) break;
  }
}

std::string Connection::ending() const {
  switch (session_.state()) {
    case Session::State::stranger: return "does not know the job's key";
    case Session::State::other_version:
      return fmt::format("speaks protocol version {}, this library {}", session_.peer_version(), kProtocolVersion);
    case Session::State::silent: return "did not answer the keyed hello";
    case Session::State::bad_frame: return "sent a message that is too long";
    case Session::State::hello:
    case Session::State::open: break;
  }
  return error_ != 0 ? errno_text(error_) : "closed the connection";
}

}  // namespace tutti::net

// SPDX-License-Identifier: BSD-3-Clause
//
// How contexts find each other by GID: a registry within the process, an abstract UNIX socket between processes. A peer
// is attached once, whatever the number of QPs. The service thread of a context sleeps in epoll: it answers attachers
// who prove the job's key, and watches attached processes.
// Invariant: no name outlives its process (abstract sockets and memfds have none in a file system), every wait has a
// deadline, and a stranger learns nothing but our version.
#pragma once

#include <memory>

#include "base/result.h"
#include "softdev/device.h"

namespace tutti::softdev {

class Service {
 public:
  // Claims the context's GIDs, drawing those that are to be random, and publishes them; then answers on them (not in
  // the stepped gear, whose peers are all in this process). Fails with EADDRINUSE on a given address that is taken.
  static Result<std::unique_ptr<Service>> start(Context &context);
  virtual ~Service() = default;
  // Reads as gone once the watched process is: peer->watch_fd.
  virtual void watch_peer(const std::shared_ptr<Peer> &peer) = 0;
  // Wakes the context's sleeper at this time (of the steady clock); 0: not.
  virtual void wake_at(std::int64_t time_ns) = 0;
};

// The peer that has this GID: cached, of this process, or over the socket. Fails with errno EHOSTUNREACH (nobody),
// EACCES (other key or user), ENETUNREACH (other subnet), EPROTO (other version), ETIMEDOUT.
Result<std::shared_ptr<Peer>> find_peer(Context &context, const Gid &gid, int sgid_index, int port);

// "fd12:..." or "10.0.0.3" (mapped) as a GID.
bool parse_gid(const std::string &text, Gid *gid);

}  // namespace tutti::softdev

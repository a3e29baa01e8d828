// SPDX-License-Identifier: BSD-3-Clause
//
// Non-blocking TCP sockets: the thin shell around the state machines of this room. Every socket is close-on-exec, and
// writing to a closed one raises no signal. Interrupted calls are repeated here and nowhere else.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/result.h"
#include "net/endpoint.h"
#include "net/fd.h"

namespace tutti::net {

// Listens on an address; port 0 lets the system choose one. A wildcard IPv6 address takes IPv4 as well. The error's
// sys_errno tells EADDRINUSE and EAFNOSUPPORT apart.
Result<Fd> tcp_listen(const Endpoint &endpoint);
// Listens on all addresses of the host, IPv6 included where the host has it.
Result<Fd> tcp_listen_anywhere(int port);

struct Accepted {
  Fd socket;          // none: nothing to accept now
  int exhausted = 0;  // errno if the process or the system is out of descriptors or memory: try again later
};
// Connections that broke before they could be accepted are passed over.
Result<Accepted> tcp_accept(const Fd &listener);

// Starts to connect. The socket becomes writable when connect_outcome can tell.
Result<Fd> tcp_connect(const Endpoint &endpoint);
// 0: connected; else the errno of the failure. A connection to itself (possible while nobody listens on a port of the
// ephemeral range) counts as ECONNREFUSED.
int connect_outcome(const Fd &socket);

std::optional<Endpoint> local_endpoint(const Fd &socket);
std::optional<Endpoint> peer_endpoint(const Fd &socket);

struct Transfer {
  std::size_t bytes = 0;
  bool ended = false;  // end of stream or a broken connection; `error` is its errno, 0 for an orderly end
  int error = 0;
};
// As much as there is, up to the buffer; 0 bytes and not ended: nothing now.
Transfer receive_some(const Fd &socket, std::span<std::byte> buffer);
Transfer send_some(const Fd &socket, std::span<const std::byte> bytes);

}  // namespace tutti::net

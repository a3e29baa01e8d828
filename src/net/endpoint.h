// SPDX-License-Identifier: BSD-3-Clause
//
// An IPv4 or IPv6 address with a port, and where it comes from: text, name resolution, the route to a peer. Mapped
// addresses (::ffff:10.0.0.1) are always held as IPv4, so that equal addresses compare equal.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace tutti::net {

struct Endpoint {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};  // network order; IPv4 uses the first four
  std::uint16_t port = 0;

  bool operator==(const Endpoint &) const = default;
  int family() const { return v6 ? AF_INET6 : AF_INET; }
  bool loopback() const;    // 127.0.0.0/8, ::1
  bool link_local() const;  // 169.254.0.0/16, fe80::/10
  // Of one interface only, and not usable without naming it: an IPv6 source while a global one is being checked.
  bool needs_interface() const { return v6 && link_local(); }
  bool wildcard() const;
  Endpoint with_port(int new_port) const;
  std::string address_text() const;  // "10.0.0.3", "fd00::2"
  std::string text() const;          // "10.0.0.3:29500", "[fd00::2]:29500"
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
};

SocketAddress to_socket_address(const Endpoint &endpoint);
std::optional<Endpoint> from_socket_address(const sockaddr *address);

// A numeric address, without a port.
std::optional<Endpoint> parse_address(std::string_view text);
// All addresses of a name or numeric address. Failures that can pass (EAI_AGAIN) are retried until the deadline; a
// single look-up is as slow as the system's resolver.
Result<std::vector<Endpoint>> resolve(const std::string &host, int port, Deadline deadline);
// The address from which this host would reach a peer, by its routes. Sends nothing. Error if there is no route.
Result<Endpoint> source_toward(const Endpoint &peer);

}  // namespace tutti::net

// SPDX-License-Identifier: BSD-3-Clause
#include "net/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>

#include <algorithm>
#include <cstring>

#include "net/fd.h"

namespace tutti::net {
namespace {

constexpr std::array<std::uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

bool Endpoint::loopback() const {
  if (!v6) return bytes[0] == 127;
  return bytes[15] == 1 && std::all_of(bytes.begin(), bytes.end() - 1, [](std::uint8_t b) { return b == 0; });
}

bool Endpoint::link_local() const {
  return v6 ? bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80 : bytes[0] == 169 && bytes[1] == 254;
}

bool Endpoint::wildcard() const {
  return std::ranges::all_of(bytes, [](std::uint8_t b) { return b == 0; });
}

Endpoint Endpoint::with_port(int new_port) const {
  Endpoint copy = *this;
  copy.port = static_cast<std::uint16_t>(new_port);
  return copy;
}

std::string Endpoint::address_text() const {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(family(), bytes.data(), text, sizeof text);
  return text;
}

std::string Endpoint::text() const {
  return v6 ? fmt::format("[{}]:{}", address_text(), port) : fmt::format("{}:{}", address_text(), port);
}

SocketAddress to_socket_address(const Endpoint &endpoint) {
  SocketAddress result;
  if (endpoint.v6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(endpoint.port);
    std::memcpy(&address.sin6_addr, endpoint.bytes.data(), 16);
    std::memcpy(&result.storage, &address, sizeof address);
    result.length = sizeof address;
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(endpoint.port);
    std::memcpy(&address.sin_addr, endpoint.bytes.data(), 4);
    std::memcpy(&result.storage, &address, sizeof address);
    result.length = sizeof address;
  }
  return result;
}

std::optional<Endpoint> from_socket_address(const sockaddr *address) {
  Endpoint endpoint;
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    std::memcpy(endpoint.bytes.data(), &v4.sin_addr, 4);
    endpoint.port = ntohs(v4.sin_port);
    return endpoint;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  std::memcpy(endpoint.bytes.data(), &v6.sin6_addr, 16);
  endpoint.port = ntohs(v6.sin6_port);
  if (std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), endpoint.bytes.begin())) {
    std::copy_n(endpoint.bytes.begin() + 12, 4, endpoint.bytes.begin());
    std::fill(endpoint.bytes.begin() + 4, endpoint.bytes.end(), std::uint8_t{0});
  } else {
    endpoint.v6 = true;
  }
  return endpoint;
}

std::optional<Endpoint> parse_address(std::string_view text) {
  const std::string copy(text);
  Endpoint endpoint;
  if (inet_pton(AF_INET, copy.c_str(), endpoint.bytes.data()) == 1) return endpoint;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET6, copy.c_str(), &v6.sin6_addr) != 1) return std::nullopt;
  return from_socket_address(reinterpret_cast<const sockaddr *>(&v6));
}

Result<std::vector<Endpoint>> resolve(const std::string &host, int port, Deadline deadline) {
  if (const auto numeric = parse_address(host)) return std::vector{numeric->with_port(port)};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo *list = nullptr;
  for (;;) {
    const int status = getaddrinfo(host.c_str(), nullptr, &hints, &list);
    if (status == 0) break;
    const bool passing = status == EAI_AGAIN || (status == EAI_SYSTEM && errno == EINTR);
    if (!passing || deadline.passed())
      return fail(Code::bootstrap, "the name '{}' cannot be resolved ({}): give an address, or correct the name", host,
                  gai_strerror(status));
    constexpr int kRetryMs = 200;  // a name server that is coming up is asked a few times a second, not more
    const int left = deadline.left_ms();
    ::poll(nullptr, 0, left < 0 ? kRetryMs : std::min(kRetryMs, left));
  }
  std::vector<Endpoint> endpoints;
  for (const addrinfo *entry = list; entry != nullptr; entry = entry->ai_next) {
    const auto endpoint = from_socket_address(entry->ai_addr);
    if (!endpoint || endpoint->link_local()) continue;
    if (std::ranges::find(endpoints, endpoint->with_port(port)) == endpoints.end())
      endpoints.push_back(endpoint->with_port(port));
  }
  freeaddrinfo(list);
  if (endpoints.empty()) return fail(Code::bootstrap, "the name '{}' has no usable IPv4 or IPv6 address", host);
  return endpoints;
}

Result<Endpoint> source_toward(const Endpoint &peer) {
  const Fd probe(::socket(peer.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe) return fail_errno(Code::system, errno, "a socket to look up the route to {}", peer.address_text());
  // Connecting a datagram socket only consults the routing table; the port does not matter, but must not be 0.
  const SocketAddress target = to_socket_address(peer.port != 0 ? peer : peer.with_port(9));
  if (::connect(probe.get(), target.get(), target.length) != 0)
    return fail_errno(Code::bootstrap, errno, "no route to {}", peer.address_text());
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(probe.get(), reinterpret_cast<sockaddr *>(&storage), &length) != 0)
    return fail_errno(Code::system, errno, "the source address towards {}", peer.address_text());
  const auto source = from_socket_address(reinterpret_cast<const sockaddr *>(&storage));
  if (!source) return fail(Code::system, "the source address towards {} is of no known family", peer.address_text());
  return source->with_port(0);
}

}  // namespace tutti::net

// SPDX-License-Identifier: BSD-3-Clause
#include "net/socket.h"

#include <netinet/tcp.h>

#include <cerrno>

namespace tutti::net {
namespace {

// As many connections as ranks may arrive before the first is accepted; the system caps it (net.core.somaxconn).
constexpr int kBacklog = 4096;

template <class Call>
auto repeat_interrupted(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

void set_option(const Fd &socket, int level, int option, int value) {
  // All options set here are improvements: a system that lacks one still works.
  ::setsockopt(socket.get(), level, option, &value, sizeof value);
}

Result<Fd> tcp_socket(const Endpoint &endpoint) {
  Fd socket(::socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno(Code::system, errno, "a socket for {}", endpoint.text());
  // Also on connecting sockets: the port of one that is closing must not keep a listener from binding to it.
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  return socket;
}

std::optional<Endpoint> name_of(const Fd &socket, int (*call)(int, sockaddr *, socklen_t *)) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (call(socket.get(), reinterpret_cast<sockaddr *>(&storage), &length) != 0) return std::nullopt;
  return from_socket_address(reinterpret_cast<const sockaddr *>(&storage));
}

Transfer transferred(ssize_t result) {
  if (result >= 0) return {.bytes = static_cast<std::size_t>(result)};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
  return {.ended = true, .error = errno};
}

}  // namespace

Result<Fd> tcp_listen(const Endpoint &endpoint) {
  TUTTI_TRY(Fd socket, tcp_socket(endpoint));
  if (endpoint.v6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, endpoint.wildcard() ? 0 : 1);
  const SocketAddress address = to_socket_address(endpoint);
  if (::bind(socket.get(), address.get(), address.length) != 0 || ::listen(socket.get(), kBacklog) != 0)
    return fail_errno(Code::bootstrap, errno, "cannot listen on {}", endpoint.text());
  return socket;
}

Result<Fd> tcp_listen_anywhere(int port) {
  auto both = tcp_listen(Endpoint{.v6 = true}.with_port(port));
  // Without IPv6 the socket cannot be made, or the address does not exist.
  if (!both && (both.error().sys_errno == EAFNOSUPPORT || both.error().sys_errno == EADDRNOTAVAIL))
    return tcp_listen(Endpoint{}.with_port(port));
  return both;
}

Result<Accepted> tcp_accept(const Fd &listener) {
  for (;;) {
    Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
      return Accepted{.socket = std::move(socket)};
    }
    switch (errno) {
      case EAGAIN: return Accepted{};
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM: return Accepted{.exhausted = errno};
      // What accept(2) reports about the connection rather than the listener.
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case EPERM:
      case ENETDOWN:
      case ENOPROTOOPT:
      case EHOSTDOWN:
      case ENONET:
      case EHOSTUNREACH:
      case ENETUNREACH: continue;
      default: return fail_errno(Code::system, errno, "cannot accept connections");
    }
  }
}

Result<Fd> tcp_connect(const Endpoint &endpoint) {
  TUTTI_TRY(Fd socket, tcp_socket(endpoint));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  const SocketAddress address = to_socket_address(endpoint);
  // An interrupted connect goes on in the background, as a non-blocking one does.
  if (::connect(socket.get(), address.get(), address.length) != 0 && errno != EINPROGRESS && errno != EINTR)
    return fail_errno(Code::bootstrap, errno, "cannot connect to {}", endpoint.text());
  return socket;
}

int connect_outcome(const Fd &socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  if (error != 0) return error;
  const auto local = local_endpoint(socket), peer = peer_endpoint(socket);
  if (!local || !peer) return ENOTCONN;
  return *local == *peer ? ECONNREFUSED : 0;
}

std::optional<Endpoint> local_endpoint(const Fd &socket) { return name_of(socket, ::getsockname); }
std::optional<Endpoint> peer_endpoint(const Fd &socket) { return name_of(socket, ::getpeername); }

Transfer receive_some(const Fd &socket, std::span<std::byte> buffer) {
  const ssize_t result =
      repeat_interrupted([&] { return ::recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT); });
  if (result == 0 && !buffer.empty()) return {.ended = true};
  return transferred(result);
}

Transfer send_some(const Fd &socket, std::span<const std::byte> bytes) {
  return transferred(repeat_interrupted(
      [&] { return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT); }));
}

}  // namespace tutti::net

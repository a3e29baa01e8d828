// SPDX-License-Identifier: BSD-3-Clause
#include "softdev/attach.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "softdev/handshake.h"
#include "softdev/world.h"

namespace tutti::softdev {
namespace {

// The service thread answers at once, whatever its rank is computing; this is long enough for a machine with many more
// processes than cores to schedule it.
constexpr std::int64_t kAttachMs = 20'000;

std::shared_ptr<Peer> local_peer(Context &context, const Gid &gid, bool *refused) {
  const std::optional<Local> local = local_context(gid);
  if (!local) return nullptr;
  if (sodium_memcmp(local->key.data(), context.world.key().data(), local->key.size()) != 0) {
    *refused = true;
    return nullptr;
  }
  auto peer = std::make_shared<Peer>();
  peer->endpoint = local->endpoint;
  peer->same_process = true;
  peer->pid = getpid();
  peer->private_reads = true;
  peer->fence = !context.membarrier || peer->endpoint->header().membarrier == 0;
  return peer;
}

bool wait_readable(int fd, Deadline deadline) {
  for (;;) {
    pollfd entry{fd, POLLIN, 0};
    const int ready = ::poll(&entry, 1, deadline.left_ms());
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// One fd that closes unless released.
struct OwnedFd {
  int fd;
  explicit OwnedFd(int number) : fd(number) {}
  ~OwnedFd() {
    if (fd >= 0) close(fd);
  }
  OwnedFd(const OwnedFd &) = delete;
  OwnedFd &operator=(const OwnedFd &) = delete;
  int release() { return std::exchange(fd, -1); }
};

bool probe_reads(int pid, std::uint64_t address) {
  std::uint64_t magic = 0;
  iovec to{&magic, sizeof magic}, from{reinterpret_cast<void *>(address), sizeof magic};
  return pid > 0 && process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof magic && magic == kArenaMagic;
}

Result<std::shared_ptr<Peer>> attach_to(Context &context, const Gid &gid) {
  const Deadline deadline = Deadline::after_ms(kAttachMs);
  OwnedFd socket_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (socket_fd.fd < 0) return fail_errno(Code::limit, errno, "attaching to a software device");
  sockaddr_un address;
  const socklen_t length = address_of(gid, &address);
  // A full backlog blocks connect: bounded by the socket's own send timeout.
  const timeval limit{kAttachMs / 1000, 0};
  setsockopt(socket_fd.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (connect(socket_fd.fd, reinterpret_cast<sockaddr *>(&address), length) != 0) {
    const int error = errno == ECONNREFUSED ? EHOSTUNREACH : errno;
    return fail_errno(Code::peer, error, "no software device answers on the peer's GID (is it on this host?)");
  }
  int pid = 0;
  if (!same_user(socket_fd.fd, &pid))
    return fail_errno(Code::peer, EACCES, "the peer's software device belongs to another user");
  // Opened before the handshake: the process that proves the key afterwards is the one this fd means.
  OwnedFd process(pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, pid, 0)) : -1);
  Hello hello{kArenaMagic, kLayoutVersion, 0, {}, {}};
  std::memcpy(hello.gid, gid.raw, 16);
  randombytes_buf(hello.nonce, sizeof hello.nonce);
  Challenge challenge{};
  if (send(socket_fd.fd, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello ||
      !wait_readable(socket_fd.fd, deadline) ||
      recv(socket_fd.fd, &challenge, sizeof challenge, MSG_DONTWAIT) != sizeof challenge)
    return fail_errno(Code::timeout, ETIMEDOUT, "the peer's software device did not answer");
  if (challenge.magic != kArenaMagic || challenge.version != kLayoutVersion)
    return fail_errno(Code::version, EPROTO, "the peer's software device is of another version of Tutti");
  const auto &key = context.world.key();
  Proof proof;
  const Mac own = prove(key, 'c', hello.nonce, challenge.nonce, hello.gid);
  std::memcpy(proof.mac, own.data(), own.size());
  Grant grant{};
  int fds[2] = {-1, -1};
  const bool answered =
      send(socket_fd.fd, &proof, sizeof proof, MSG_NOSIGNAL) == sizeof proof && wait_readable(socket_fd.fd, deadline);
  const bool granted = answered && receive_grant(socket_fd.fd, &grant, fds);
  OwnedFd memory(fds[0]), event(fds[1]);
  const Mac theirs = prove(key, 's', hello.nonce, challenge.nonce, hello.gid);
  if (!granted || sodium_memcmp(theirs.data(), grant.mac, theirs.size()) != 0)
    return fail_errno(Code::peer, answered ? EACCES : ETIMEDOUT,
                      "the peer's software device refused the attachment (do both ranks have the same job key?)");
  auto peer = std::make_shared<Peer>();
  peer->endpoint = Endpoint::attach(memory.release(), event.release(), grant.range);
  if (peer->endpoint == nullptr) return fail_errno(Code::memory, errno, "mapping a peer's software device");
  const ArenaHeader &header = peer->endpoint->header();
  if (header.magic != kArenaMagic || header.version != kLayoutVersion)
    return fail_errno(Code::version, EPROTO, "the peer's software device is of another version of Tutti");
  peer->pid = pid;
  peer->private_reads = process.fd >= 0 && probe_reads(pid, grant.probe_address);
  peer->fence = !context.membarrier || grant.membarrier == 0;
  peer->watch_fd = process.fd >= 0 ? process.release() : socket_fd.release();
  context.service->watch_peer(peer);
  return peer;
}

Result<> check_address(Context &context, const Peer &peer, const Gid &gid, int sgid_index, int port) {
  const ArenaHeader &header = peer.endpoint->header();
  const Port &own = context.ports[static_cast<std::size_t>(port) - 1];
  for (std::uint32_t i = 0; i < header.gid_count; ++i) {
    const ArenaHeader::Address &address = header.gids[i];
    if (std::memcmp(address.gid, gid.raw, 16) != 0) continue;
    if (address.subnet != own.subnet)
      return fail_errno(Code::peer, ENETUNREACH, "the peer's port is on another subnet than ours");
    for (const GidRow &row : own.gids)
      if (row.index == sgid_index && static_cast<std::uint32_t>(row.type) == address.type) return {};
    return fail_errno(Code::peer, EHOSTUNREACH, "the peer's GID is of another RoCE version than ours");
  }
  return fail_errno(Code::peer, EHOSTUNREACH, "the peer's software device does not have the GID it answers on");
}

}  // namespace

Peer::~Peer() {
  if (watch_fd >= 0) close(watch_fd);
}

Result<std::shared_ptr<Peer>> find_peer(Context &context, const Gid &gid, int sgid_index, int port) {
  std::lock_guard lock(context.peers_mutex);
  if (std::erase_if(context.peers, [](const auto &known) { return known.second->is_gone(); }) > 0)
    context.service->forget_closed();
  std::shared_ptr<Peer> peer;
  for (const auto &[known, candidate] : context.peers)
    if (known == gid) peer = candidate;
  if (peer == nullptr) {
    bool refused = false;
    peer = local_peer(context, gid, &refused);
    if (refused) return fail_errno(Code::peer, EACCES, "the peer's software device has another job key");
    if (peer == nullptr) {
      if (context.world.options().stepped)
        return fail_errno(Code::peer, EHOSTUNREACH, "no stepped software device of this process has the peer's GID");
      TUTTI_TRY(peer, attach_to(context, gid));
    }
    context.peers.emplace_back(gid, peer);
  }
  TUTTI_TRY(check_address(context, *peer, gid, sgid_index, port));
  return peer;
}

bool still_alive(const Peer &peer) {
  pollfd entry{peer.watch_fd, POLLIN, 0};
  return peer.same_process || (!peer.is_gone() && ::poll(&entry, 1, 0) == 0);
}

bool parse_gid(const std::string &text, Gid *gid) {
  if (inet_pton(AF_INET6, text.c_str(), gid->raw) == 1) return true;
  in_addr v4;
  if (inet_pton(AF_INET, text.c_str(), &v4) != 1) return false;
  // An IPv4 address as the kernel puts it into RoCE GID tables: ::ffff:a.b.c.d.
  std::memset(gid->raw, 0, 10);
  gid->raw[10] = gid->raw[11] = 0xff;
  std::memcpy(gid->raw + 12, &v4, 4);
  return true;
}

}  // namespace tutti::softdev

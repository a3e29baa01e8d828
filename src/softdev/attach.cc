// SPDX-License-Identifier: BSD-3-Clause
#include "softdev/attach.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "softdev/world.h"

namespace tutti::softdev {
namespace {

// The service thread answers at once, whatever its rank is computing; this is long enough for a machine with many more
// processes than cores to schedule it.
constexpr std::int64_t kAttachMs = 20'000;
// A stranger that says nothing is dropped after this.
constexpr std::int64_t kStrangerMs = 20'000;

// ---- Contexts of this process ----

struct Local {
  std::shared_ptr<Endpoint> endpoint;
  std::array<unsigned char, 32> key;
  pid_t pid;  // a forked child must not take its parent's contexts for its own
};

struct Registry {
  std::mutex mutex;
  std::map<Gid, Local> contexts;
};

Registry &registry() {
  static Registry *instance = new Registry;  // outlives every thread that could still close a context at exit
  return *instance;
}

bool claim(Context &context, const Gid &gid) {
  std::lock_guard lock(registry().mutex);
  auto &contexts = registry().contexts;
  const auto found = contexts.find(gid);
  if (found != contexts.end() && found->second.pid == getpid()) return false;
  contexts[gid] = {context.self, context.world.key(), getpid()};
  return true;
}

void unclaim(const Gid &gid) {
  std::lock_guard lock(registry().mutex);
  registry().contexts.erase(gid);
}

// ---- The handshake's messages: one SEQPACKET datagram each ----

struct Hello {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  unsigned char gid[16];
  unsigned char nonce[32];
};
struct Challenge {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  unsigned char nonce[32];
};
struct Proof {
  unsigned char mac[crypto_auth_BYTES];
};
struct Grant {
  unsigned char mac[crypto_auth_BYTES];
  std::uint64_t range;
  std::uint64_t probe_address;  // where the owner has its arena: cross-memory attach is tried there
  std::uint32_t membarrier;
  std::uint32_t reserved;
};

using Mac = std::array<unsigned char, crypto_auth_BYTES>;

// Each side proves the key over both nonces; the role keeps one's proof from being played back as the other's.
Mac prove(const std::array<unsigned char, 32> &key, char role, const unsigned char *client_nonce,
          const unsigned char *server_nonce, const unsigned char *gid) {
  unsigned char text[1 + 32 + 32 + 16];
  text[0] = static_cast<unsigned char>(role);
  std::memcpy(text + 1, client_nonce, 32);
  std::memcpy(text + 33, server_nonce, 32);
  std::memcpy(text + 65, gid, 16);
  Mac mac;
  static_assert(crypto_auth_KEYBYTES == 32);
  crypto_auth(mac.data(), text, sizeof text, key.data());
  return mac;
}

socklen_t address_of(const Gid &gid, sockaddr_un *address) {
  std::memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  std::string name = "tutti-softdev-";
  for (const unsigned char byte : gid.raw) name += fmt::format("{:02x}", byte);
  std::memcpy(address->sun_path + 1, name.data(), name.size());  // a leading zero byte: no file
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

int listen_on(const Gid &gid) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  sockaddr_un address;
  const socklen_t length = address_of(gid, &address);
  if (bind(fd, reinterpret_cast<sockaddr *>(&address), length) == 0 && listen(fd, 4096) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

bool same_user(int fd, int *pid) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return false;
  if (pid != nullptr) *pid = credentials.pid;
  return credentials.uid == geteuid();
}

bool send_grant(int fd, const Grant &grant, int memory_fd, int event_fd) {
  iovec data{const_cast<Grant *>(&grant), sizeof grant};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const int fds[2] = {memory_fd, event_fd};
  std::memcpy(CMSG_DATA(header), fds, sizeof fds);
  return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof grant;
}

bool receive_grant(int fd, Grant *grant, int fds[2]) {
  iovec data{grant, sizeof *grant};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  const cmsghdr *header = CMSG_FIRSTHDR(&message);
  const bool passed =
      got > 0 && header != nullptr && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(2 * sizeof(int));
  if (passed) std::memcpy(fds, CMSG_DATA(header), 2 * sizeof(int));
  return got == sizeof *grant && passed;
}

// ---- The service thread ----

struct Stranger {
  int fd;
  Deadline deadline;
  bool greeted = false;
  bool granted = false;  // kept open where the attacher watches our end of it
  Hello hello{};
  unsigned char nonce[32]{};
};

class Thread final : public Service {
 public:
  explicit Thread(Context &context) : context_(context) {}
  ~Thread() override {
    if (thread_.joinable()) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = write(stop_, &one, sizeof one);
      thread_.join();
    }
    for (const int fd : listeners_) close(fd);
    for (const Stranger &stranger : strangers_) close(stranger.fd);
    for (const int fd : {epoll_, stop_, timer_})
      if (fd >= 0) close(fd);
    for (const Gid &gid : gids_) unclaim(gid);
  }

  Result<> take_gids();
  Result<> run();
  void watch_peer(const std::shared_ptr<Peer> &peer) override;
  void wake_at(std::int64_t time_ns) override;

 private:
  Result<> take_gid(GidRow &row);
  void publish_gids();
  void add(int fd) {
    epoll_event event{EPOLLIN, {.fd = fd}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }
  void loop();
  void accept_all(int listener);
  bool answer(Stranger &stranger);  // false: drop it
  void gone(int fd);

  Context &context_;
  std::vector<Gid> gids_;
  std::vector<int> listeners_;
  std::vector<Stranger> strangers_;
  std::mutex watched_mutex_;
  std::vector<std::shared_ptr<Peer>> watched_;
  int epoll_ = -1, stop_ = -1, timer_ = -1;
  std::thread thread_;
};

Result<> Thread::take_gid(GidRow &row) {
  const bool stepped = context_.world.options().stepped;
  // A random address is taken by accident once in 2^60 draws; in the stepped gear the draws of equal seeds collide.
  for (int attempt = 0; attempt < 100'000; ++attempt) {
    if (row.drawn) {
      const bool v1 = row.type == verbs::GidEntry::Type::roce_v1;
      if (stepped)
        for (int i = 0; i < 16; ++i) row.gid.raw[i] = static_cast<unsigned char>(context_.world.random() >> 32);
      else randombytes_buf(row.gid.raw, sizeof row.gid.raw);
      row.gid.raw[0] = v1 ? 0xfe : 0xfd;  // link-local or unique local
      if (v1) row.gid.raw[1] = 0x80;
    }
    if (claim(context_, row.gid)) {
      if (stepped) return gids_.push_back(row.gid), Result<>();
      const int fd = listen_on(row.gid);
      if (fd >= 0) {
        gids_.push_back(row.gid);
        listeners_.push_back(fd);
        return {};
      }
      const int error = errno;
      unclaim(row.gid);
      if (error != EADDRINUSE) return fail_errno(Code::device, error, "a software device cannot listen for its peers");
    }
    if (!row.drawn) break;
  }
  return fail_errno(Code::device, EADDRINUSE, "a GID given to a software device belongs to another one");
}

void Thread::publish_gids() {
  ArenaHeader &header = context_.self->header();
  std::uint32_t count = 0;
  for (const Port &port : context_.ports)
    for (const GidRow &row : port.gids) {
      if (count == kMaxGids) break;
      ArenaHeader::Address &address = header.gids[count++];
      std::memcpy(address.gid, row.gid.raw, 16);
      address.subnet = port.subnet;
      address.type = static_cast<std::uint32_t>(row.type);
    }
  header.gid_count = count;
}

Result<> Thread::take_gids() {
  for (Port &port : context_.ports)
    for (GidRow &row : port.gids) TUTTI_TRY(take_gid(row));
  publish_gids();
  return {};
}

Result<> Thread::run() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  stop_ = eventfd(0, EFD_CLOEXEC);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (epoll_ < 0 || stop_ < 0 || timer_ < 0)
    return fail_errno(Code::limit, errno, "a software device cannot watch its peers (raise ulimit -n?)");
  add(stop_);
  add(timer_);
  for (const int fd : listeners_) add(fd);
  // The program's signals are for the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "tutti-softdev");
  return {};
}

void Thread::loop() {
  for (;;) {
    epoll_event events[16];
    // Without strangers nothing has a deadline and the thread sleeps until something happens.
    const bool waiting =
        std::any_of(strangers_.begin(), strangers_.end(), [](const Stranger &s) { return !s.granted; });
    const int count = epoll_wait(epoll_, events, 16, waiting ? 1000 : -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == stop_) return;
      if (fd == timer_) {
        std::uint64_t expired;
        [[maybe_unused]] const ssize_t got = read(timer_, &expired, sizeof expired);
        wake_self(context_);
      } else if (std::find(listeners_.begin(), listeners_.end(), fd) != listeners_.end()) {
        accept_all(fd);
      } else if (const auto stranger =
                     std::find_if(strangers_.begin(), strangers_.end(), [fd](const Stranger &s) { return s.fd == fd; });
                 stranger != strangers_.end()) {
        if (answer(*stranger)) continue;
        close(fd);
        strangers_.erase(stranger);
      } else {
        gone(fd);
      }
    }
    std::erase_if(strangers_, [](const Stranger &s) {
      if (s.granted || !s.deadline.passed()) return false;
      close(s.fd);
      return true;
    });
  }
}

void Thread::accept_all(int listener) {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    if (!same_user(fd, nullptr)) {
      close(fd);
      continue;
    }
    strangers_.push_back({fd, Deadline::after_ms(kStrangerMs)});
    add(fd);
  }
}

bool Thread::answer(Stranger &stranger) {
  if (!stranger.greeted) {
    if (recv(stranger.fd, &stranger.hello, sizeof stranger.hello, MSG_DONTWAIT) != sizeof stranger.hello) return false;
    Challenge challenge{kArenaMagic, kLayoutVersion, 0, {}};
    randombytes_buf(challenge.nonce, sizeof challenge.nonce);
    std::memcpy(stranger.nonce, challenge.nonce, sizeof challenge.nonce);
    stranger.greeted = true;
    return stranger.hello.magic == kArenaMagic &&
           send(stranger.fd, &challenge, sizeof challenge, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof challenge;
  }
  if (stranger.granted) return false;  // it has closed, or talks out of turn
  Proof proof;
  if (recv(stranger.fd, &proof, sizeof proof, MSG_DONTWAIT) != sizeof proof) return false;
  const auto &key = context_.world.key();
  const Mac expected = prove(key, 'c', stranger.hello.nonce, stranger.nonce, stranger.hello.gid);
  if (sodium_memcmp(expected.data(), proof.mac, expected.size()) != 0) return false;
  Grant grant{};
  const Mac own = prove(key, 's', stranger.hello.nonce, stranger.nonce, stranger.hello.gid);
  std::memcpy(grant.mac, own.data(), own.size());
  grant.range = context_.self->range();
  grant.probe_address = reinterpret_cast<std::uint64_t>(context_.self->base());
  grant.membarrier = context_.membarrier;
  stranger.granted = true;
  return send_grant(stranger.fd, grant, context_.self->memory_fd(), context_.self->event_fd());
}

void Thread::watch_peer(const std::shared_ptr<Peer> &peer) {
  std::lock_guard lock(watched_mutex_);
  watched_.push_back(peer);
  add(peer->watch_fd);
}

void Thread::gone(int fd) {
  std::lock_guard lock(watched_mutex_);
  for (auto peer = watched_.begin(); peer != watched_.end(); ++peer) {
    if ((*peer)->watch_fd != fd) continue;
    (*peer)->gone.store(true, std::memory_order_release);
    epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
    watched_.erase(peer);
    wake_self(context_);
    return;
  }
}

void Thread::wake_at(std::int64_t time_ns) {
  itimerspec when{};
  when.it_value = {static_cast<time_t>(time_ns / kNanosecondsPerSecond), time_ns % kNanosecondsPerSecond};
  timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

// ---- The attaching side ----

std::shared_ptr<Peer> local_peer(Context &context, const Gid &gid, bool *refused) {
  std::lock_guard lock(registry().mutex);
  const auto found = registry().contexts.find(gid);
  if (found == registry().contexts.end() || found->second.pid != getpid()) return nullptr;
  if (sodium_memcmp(found->second.key.data(), context.world.key().data(), 32) != 0) {
    *refused = true;
    return nullptr;
  }
  auto peer = std::make_shared<Peer>();
  peer->endpoint = found->second.endpoint;
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

Result<std::unique_ptr<Service>> Service::start(Context &context) {
  auto thread = std::make_unique<Thread>(context);
  TUTTI_TRY(thread->take_gids());
  if (!context.world.options().stepped) TUTTI_TRY(thread->run());
  return std::unique_ptr<Service>(std::move(thread));
}

Result<std::shared_ptr<Peer>> find_peer(Context &context, const Gid &gid, int sgid_index, int port) {
  std::lock_guard lock(context.peers_mutex);
  std::erase_if(context.peers, [](const auto &known) { return known.second->is_gone(); });
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

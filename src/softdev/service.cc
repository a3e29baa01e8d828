// SPDX-License-Identifier: BSD-3-Clause
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "softdev/attach.h"
#include "softdev/handshake.h"
#include "softdev/world.h"

namespace tutti::softdev {
namespace {

// A stranger that says nothing is dropped after this.
constexpr std::int64_t kStrangerMs = 20'000;

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
  void forget_closed() override;
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

void Thread::forget_closed() {
  std::lock_guard lock(watched_mutex_);
  std::erase_if(watched_, [this](const std::shared_ptr<Peer> &peer) {
    if (!peer->is_gone()) return false;
    epoll_ctl(epoll_, EPOLL_CTL_DEL, peer->watch_fd, nullptr);
    return true;
  });
}

void Thread::wake_at(std::int64_t time_ns) {
  itimerspec when{};
  when.it_value = {static_cast<time_t>(time_ns / kNanosecondsPerSecond), time_ns % kNanosecondsPerSecond};
  timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace

Result<std::unique_ptr<Service>> Service::start(Context &context) {
  auto thread = std::make_unique<Thread>(context);
  TUTTI_TRY(thread->take_gids());
  if (!context.world.options().stepped) TUTTI_TRY(thread->run());
  return std::unique_ptr<Service>(std::move(thread));
}

}  // namespace tutti::softdev

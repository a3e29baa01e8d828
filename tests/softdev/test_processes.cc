// SPDX-License-Identifier: BSD-3-Clause
//
// Between processes: sleeping and waking, death, keys, strangers, and what is left behind.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "rig.h"
#include "support/random.h"

namespace tutti::softdev::test {
namespace {

// A forked rank with pipes both ways. The child function returns its exit code.
class Child {
 public:
  explicit Child(const std::function<int(Child &)> &body) {
    EXPECT_EQ(pipe2(down_, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(up_, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      std::swap(down_, up_);  // so that both ends read from up_ and write to down_
      _exit(body(*this) != 0 || testing::Test::HasFailure() ? 1 : 0);
    }
  }
  ~Child() {
    if (pid_ > 0) end();
    for (const int fd : {down_[0], down_[1], up_[0], up_[1]}) close(fd);
  }
  template <class T>
  void send(const T &value) {
    EXPECT_EQ(write(down_[1], &value, sizeof value), static_cast<ssize_t>(sizeof value));
  }
  template <class T>
  T receive() {
    T value{};
    EXPECT_EQ(read(up_[0], &value, sizeof value), static_cast<ssize_t>(sizeof value));
    return value;
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    int status;
    waitpid(pid_, &status, 0);
    pid_ = 0;
  }
  int end() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  pid_t pid() const { return pid_; }

 private:
  int down_[2], up_[2];
  pid_t pid_ = 0;
};

// Joins with the other end of `child`'s pipes.
Name join(Side &side, Child &child) {
  child.send(side.name());
  const Name peer = child.receive<Name>();
  side.connect(peer);
  child.send('j');
  child.receive<char>();
  return peer;
}

// Sleeps as verbs users do: arm, poll once more, wait for the event.
ibv_wc sleep_for(Side &side, int limit_ms = 20'000) {
  ibv_wc wc{};
  for (;;) {
    if (ibv_poll_cq(side.cq, 1, &wc) == 1) return wc;
    EXPECT_EQ(ibv_req_notify_cq(side.cq, 0), 0);
    if (ibv_poll_cq(side.cq, 1, &wc) == 1) return wc;
    pollfd entry{side.channel->fd, POLLIN, 0};
    if (poll(&entry, 1, limit_ms) != 1) {
      ADD_FAILURE() << "a wake-up was lost";
      return wc;
    }
    ibv_cq *cq;
    void *user;
    if (side.v->get_cq_event(side.channel, &cq, &user) == 0) {
      EXPECT_EQ(cq, side.cq);
      EXPECT_EQ(user, static_cast<tutti::test::VerbsSide *>(&side));
      side.v->ack_cq_events(cq, 1);
    }
  }
}

Shape sleeping() {
  Shape shape;
  shape.channel = true;
  return shape;
}

int ping_pong_asleep(Side &side, int rounds, bool first) {
  for (int i = 0; i < rounds; ++i) {
    if (first && side.post(1, side.sge(0, 8), IBV_WR_SEND, 0) != 0) return 1;
    const ibv_wc wc = sleep_for(side);
    if (wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_RECV) return 2;
    side.post_receive(wc.wr_id, 64, 64);
    if (!first && side.post(1, side.sge(0, 8), IBV_WR_SEND, 0) != 0) return 3;
  }
  return 0;
}

TEST(Sleeping, NoWakeUpIsLostBetweenTwoSleepers) {
  // Unsignaled sends are never polled for, so the queue has to hold them all.
  Shape shape = sleeping();
  shape.send_wr = 4096;
  constexpr int kRounds = 3000;
  Child child([&](Child &parent) {
    Side side(shape);
    for (int i = 0; i < 16; ++i) side.post_receive(i, 64, 64);
    join(side, parent);
    return ping_pong_asleep(side, kRounds, false);
  });
  Side side(shape);
  for (int i = 0; i < 16; ++i) side.post_receive(i, 64, 64);
  join(side, child);
  EXPECT_EQ(ping_pong_asleep(side, kRounds, true), 0);
  EXPECT_EQ(child.end(), 0);
}

// The race for which sleeper and sender are ordered: one arms while the other stores, within moments of each other,
// again and again. Without that order both pass each other by, and the sleeper never wakes.
TEST(Sleeping, AMessageThatComesWhileItsReceiverFallsAsleepWakesIt) {
  constexpr int kRounds = 20'000;
  Pair pair(sleeping());
  std::atomic<int> started = 0, finished = 0;
  const auto idle = [](int turns) {
    for (int i = 0; i < turns; ++i) asm volatile("" ::: "memory");
  };
  std::thread sender([&] {
    tutti::test::Random random(1);
    for (int round = 1; round <= kRounds; ++round) {
      while (started < round) std::this_thread::yield();
      idle(static_cast<int>(random.below(2000)));
      EXPECT_EQ(pair.a.post(1, pair.a.sge(0, 8)), 0);
      while (finished < round) std::this_thread::yield();
      pair.a.wait();
    }
  });
  tutti::test::Random random(2);
  int lost = 0;
  for (int round = 1; round <= kRounds; ++round) {
    pair.b.post_receive(1, 0, 64);
    started = round;
    idle(static_cast<int>(random.below(500)));
    for (bool received = false; !received;) {
      ibv_req_notify_cq(pair.b.cq, 0);
      ibv_wc wc;
      if (ibv_poll_cq(pair.b.cq, 1, &wc) == 1) break;
      pollfd event{pair.b.channel->fd, POLLIN, 0};
      // Nobody needs so long, however busy the host: a wake-up that comes at all comes at once.
      constexpr int kPatienceMs = 20'000;
      if (lost == 0 && ::poll(&event, 1, kPatienceMs) == 0) ++lost;
      received = ibv_poll_cq(pair.b.cq, 1, &wc) == 1;
      ibv_cq *cq = nullptr;
      void *owner = nullptr;
      if (lost == 0 && pair.b.v->get_cq_event(pair.b.channel, &cq, &owner) == 0) pair.b.v->ack_cq_events(cq, 1);
    }
    finished = round;
  }
  sender.join();
  EXPECT_EQ(lost, 0);
}

TEST(Sleeping, ASendsCompletionWakesItsSender) {
  Child child([&](Child &parent) {
    Side side(sleeping());
    join(side, parent);
    parent.receive<char>();  // the sender is about to sleep
    usleep(20'000);
    side.post_receive(1, 0, 64);
    const ibv_wc wc = sleep_for(side);
    // Asleep again, with nothing to come: arming publishes what was consumed.
    ibv_req_notify_cq(side.cq, 0);
    parent.receive<char>();
    return wc.status == IBV_WC_SUCCESS ? 0 : 1;
  });
  Side side(sleeping());
  join(side, child);
  ASSERT_EQ(side.post(7, side.sge(0, 8)), 0);
  child.send('s');
  const ibv_wc wc = sleep_for(side);
  EXPECT_EQ(wc.opcode, IBV_WC_SEND);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  child.send('e');
  EXPECT_EQ(child.end(), 0);
}

TEST(Sleeping, TheRetryLimitWakesASleeperThoughNobodyAnswers) {
  Shape shape = sleeping();
  shape.timeout = 12;  // 17 ms
  shape.retry_cnt = 1;
  Side a(shape), b(shape);
  a.connect(b.name());
  ASSERT_EQ(a.post(1, a.sge(0, 8)), 0);
  EXPECT_EQ(sleep_for(a).status, IBV_WC_RETRY_EXC_ERR);
}

TEST(Death, AKilledPeerEndsSendsAndWakesASleeper) {
  Child child([&](Child &parent) {
    Side side(sleeping());
    join(side, parent);
    parent.receive<char>();
    return 0;
  });
  Side side(sleeping());
  join(side, child);
  ASSERT_EQ(side.post(1, side.sge(0, 8)), 0);
  ASSERT_EQ(side.post(2, side.sge(0, 8), IBV_WR_SEND, 0), 0);
  EXPECT_TRUE(side.drain().empty());
  std::thread killer([&] {
    usleep(30'000);
    child.kill();
  });
  EXPECT_EQ(sleep_for(side).status, IBV_WC_RETRY_EXC_ERR);
  killer.join();
  EXPECT_EQ(side.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(side.state(), IBV_QPS_ERR);
}

TEST(Death, MemoryOfADeadPeerIsNeitherReadNorWritten) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    Child child([&](Child &parent) {
      Side side;
      join(side, parent);
      parent.receive<char>();
      return 0;
    });
    Side side;
    const Name peer = join(side, child);
    child.kill();
    // The service thread learns of the death on its own time.
    ibv_wc wc;
    do {
      ASSERT_EQ(side.post(1, side.sge(0, 8), opcode, IBV_SEND_SIGNALED,
                          opcode == IBV_WR_RDMA_READ ? peer.private_address : peer.arena_address,
                          opcode == IBV_WR_RDMA_READ ? peer.private_rkey : peer.arena_rkey),
                0);
      wc = side.wait();
    } while (wc.status == IBV_WC_SUCCESS && opcode == IBV_WR_RDMA_WRITE);
    EXPECT_TRUE(wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_REM_ACCESS_ERR) << wc.status;
    EXPECT_EQ(side.state(), IBV_QPS_ERR);
  }
}

std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  if (DIR *folder = opendir("/dev/shm")) {
    while (const dirent *entry = readdir(folder)) names.insert(entry->d_name);
    closedir(folder);
  }
  return names;
}

std::string hex_of(const ibv_gid &gid) {
  std::string text;
  for (const unsigned char byte : gid.raw) text += fmt::format("{:02x}", byte);
  return text;
}

bool socket_exists(const std::string &part) {
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);)
    if (line.find(part) != std::string::npos) return true;
  return false;
}

TEST(Death, NothingIsLeftBehindByAKilledProcess) {
  const std::set<std::string> before = shared_memory_files();
  Child child([&](Child &parent) {
    Side side;
    parent.send(side.name());
    parent.receive<char>();
    return 0;
  });
  const Name peer = child.receive<Name>();
  EXPECT_TRUE(socket_exists(hex_of(peer.gid))) << "while it lives, it can be found";
  child.kill();
  EXPECT_FALSE(socket_exists(hex_of(peer.gid)));
  EXPECT_EQ(shared_memory_files(), before);
  Side side;
  ASSERT_EQ(side.to_init(), 0);
  EXPECT_EQ(side.to_rtr(peer), EHOSTUNREACH);
}

TEST(Keys, AProcessWithAnotherKeyIsRefusedAndOneWithTheSameIsNot) {
  for (const bool same : {false, true}) {
    Child child([&](Child &parent) {
      Shape shape;
      shape.options.job_key = "the job's key";
      Side side(shape);
      parent.send(side.name());
      parent.receive<char>();
      return 0;
    });
    const Name peer = child.receive<Name>();
    Shape shape;
    shape.options.job_key = same ? "the job's key" : "another key";
    Side side(shape);
    ASSERT_EQ(side.to_init(), 0);
    EXPECT_EQ(side.to_rtr(peer), same ? 0 : EACCES);
    child.send('e');
    EXPECT_EQ(child.end(), 0);
  }
}

TEST(Keys, StrangersOnTheSocketDisturbNobody) {
  Child child([&](Child &parent) {
    Side side;
    side.post_receive(1, 0, 64);
    join(side, parent);
    return side.wait([] { std::this_thread::yield(); }).status == IBV_WC_SUCCESS ? (side.drain(), 0) : 1;
  });
  Side side;
  child.send(side.name());
  const Name peer = child.receive<Name>();
  const std::string name = "tutti-softdev-" + hex_of(peer.gid);
  std::vector<int> strangers;
  for (int kind = 0; kind < 4; ++kind) {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr *>(&address),
                        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
              0);
    std::vector<char> noise(kind == 3 ? 64 : 100, static_cast<char>(kind));
    if (kind > 0) {
      EXPECT_GT(send(fd, noise.data(), noise.size(), MSG_NOSIGNAL), 0);
    }
    strangers.push_back(fd);
  }
  side.connect(peer);
  child.send('j');
  child.receive<char>();
  // Those that spoke were dropped; the silent one waits for its deadline.
  for (std::size_t i = 1; i < strangers.size(); ++i) {
    pollfd entry{strangers[i], POLLIN, 0};
    EXPECT_EQ(poll(&entry, 1, 10'000), 1);
    char byte;
    EXPECT_LE(recv(strangers[i], &byte, 1, 0), 0) << "a stranger got an answer";
  }
  ASSERT_EQ(side.post(1, side.sge(0, 8)), 0);
  EXPECT_EQ(side.wait([] { std::this_thread::yield(); }).status, IBV_WC_SUCCESS);
  for (const int fd : strangers) close(fd);
  EXPECT_EQ(child.end(), 0);
}

}  // namespace
}  // namespace tutti::softdev::test

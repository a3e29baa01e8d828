// SPDX-License-Identifier: BSD-3-Clause
//
// Whole Controls of one job over loopback: as threads of one process, and as processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "control/control.h"

namespace tutti::control {

inline constexpr std::int64_t kPatienceMs = 60'000;  // only a broken build waits for so long

inline Options options_of(int rank, int ranks) {
  return {.rank = rank, .ranks = ranks, .job_key = "a key of the tests", .local_address = "127.0.0.1"};
}

using World = std::vector<std::unique_ptr<Control>>;

inline World listening(int ranks, const std::function<void(Options &)> &change = {}) {
  World world;
  for (int rank = 0; rank < ranks; ++rank) {
    Options options = options_of(rank, ranks);
    if (change) change(options);
    auto control = Control::listen(options);
    EXPECT_TRUE(control) << control.error().text;
    world.push_back(std::move(*control));
  }
  return world;
}

inline std::vector<Address> addresses_of(const World &world) {
  std::vector<Address> addresses;
  for (const auto &control : world) addresses.push_back(control->address());
  return addresses;
}

// body(rank, control) on a thread for each rank; waits for all.
inline void on_each(World &world, const std::function<void(int, Control &)> &body) {
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < world.size(); ++rank)
    if (world[rank]) threads.emplace_back([&, rank] { body(static_cast<int>(rank), *world[rank]); });
}

inline void connect_all(World &world) {
  const std::vector<Address> addresses = addresses_of(world);
  on_each(world, [&](int, Control &control) {
    const auto connected = control.connect(addresses, Deadline::after_ms(kPatienceMs));
    EXPECT_TRUE(connected) << connected.error().text;
  });
}

inline World connected(int ranks, const std::function<void(Options &)> &change = {}) {
  World world = listening(ranks, change);
  connect_all(world);
  return world;
}

inline void leave_all(World &world) {
  on_each(world, [](int, Control &control) { control.leave(Deadline::after_ms(kPatienceMs)); });
}

// Ranks as processes. The addresses are gathered in shared memory.
class Processes {
 public:
  struct Shared {
    std::atomic<int> listening{0}, connected{0}, finished{0};
    std::atomic<bool> go{false};
    Address addresses[16];
  };
  using Body = std::function<int(Control &, Shared &)>;

  Processes(int ranks, const Body &body, const std::function<void(Options &)> &change = {}) {
    void *memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) Shared;
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) _exit(run(rank, ranks, body, change));
      pids_.push_back(pid);
    }
    while (shared_->connected.load() < ranks && shared_->finished.load() == 0) std::this_thread::yield();
  }
  ~Processes() { ::munmap(shared_, sizeof(Shared)); }

  Shared &shared() { return *shared_; }
  void signal(int rank, int number) { ::kill(pids_[static_cast<std::size_t>(rank)], number); }
  int wait(int rank) {
    int status = 0;
    ::waitpid(pids_[static_cast<std::size_t>(rank)], &status, 0);
    return status;
  }

 private:
  int run(int rank, int ranks, const Body &body, const std::function<void(Options &)> &change) {
    Options options = options_of(rank, ranks);
    if (change) change(options);
    auto control = Control::listen(options);
    if (!control) return 101;
    shared_->addresses[rank] = (*control)->address();
    ++shared_->listening;
    while (shared_->listening.load() < ranks) std::this_thread::yield();
    if (!(*control)->connect(std::span(shared_->addresses).first(static_cast<std::size_t>(ranks)),
                             Deadline::after_ms(kPatienceMs))) {
      ++shared_->finished;
      return 102;
    }
    ++shared_->connected;
    return body(**control, *shared_);
  }

  Shared *shared_;
  std::vector<pid_t> pids_;
};

}  // namespace tutti::control

// SPDX-License-Identifier: BSD-3-Clause
#include "comm/engine.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/clock.h"
#include "base/log.h"

namespace tutti::comm {
namespace {

// Idle polls between two looks at the clock and at what is off the data path.
constexpr unsigned kIdlePolls = 64;
// How long a broken link may wait for control to say that the peer died, which is the better explanation.
constexpr std::int64_t kExplainNs = 3 * kNanosecondsPerSecond;
// A sleeper that waits for grants looks for itself: grants are written without an event.
constexpr int kGrantNapMs = 1;
// Upper bound on a sleep; only a safety net, since every event has a file descriptor. At most two wake-ups a second.
constexpr int kSleepMs = 500;

// After so long without any message people want to know for whom a call waits.
constexpr std::int64_t kTellNs = 10 * kNanosecondsPerSecond;

void tell_waiting(const Communicator &communicator, const exec::Execution &execution) {
  std::string ranks;
  for (const int rank : execution.missing()) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
  TUTTI_LOG(warn, "{} has waited 10 s{}; it goes on waiting", communicator.current(),
            ranks.empty() ? std::string(" for acknowledgements") : fmt::format(" for data from rank {}", ranks));
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

WaitPolicy wait_policy(int ranks_per_core, std::int64_t spin_us_setting) {
  WaitPolicy policy;
  // With a core for each rank spinning costs nobody. With more ranks than cores the peer waited for may need this core:
  // give it away at once, and keep offering it, since yielding among runnable core-mates beats sleeping and being
  // woken.
  policy.spin_ns = ranks_per_core <= 1 ? 200'000 : 0;
  policy.yield_ns = ranks_per_core <= 1 ? 1'000'000 : 5'000'000;
  if (spin_us_setting >= 0) policy.spin_ns = spin_us_setting * 1000;
  return policy;
}

Result<std::unique_ptr<Engine>> Engine::create(std::unique_ptr<mesh::Mesh> mesh, control::Control *control,
                                               WaitPolicy policy) {
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return fail_errno(Code::system, errno, "cannot create an event descriptor");
  return std::unique_ptr<Engine>(new Engine(std::move(mesh), control, policy, wake_fd));
}

Engine::Engine(std::unique_ptr<mesh::Mesh> mesh, control::Control *control, WaitPolicy policy, int wake_fd)
    : mesh_(std::move(mesh)), control_(control), policy_(policy), wake_fd_(wake_fd) {}

Engine::~Engine() { ::close(wake_fd_); }

void Engine::add(Communicator &communicator) {
  if (communicators_.size() <= communicator.id()) communicators_.resize(communicator.id() + std::size_t{1});
  TUTTI_CHECK(communicators_[communicator.id()] == nullptr);
  communicators_[communicator.id()] = &communicator;
}

void Engine::remove(Communicator &communicator) { communicators_[communicator.id()] = nullptr; }

int Engine::progress(std::size_t most) {
  const int count = mesh_->poll(std::span(records_).first(std::min(most, kBatch)));
  for (int i = 0; i < count; ++i) {
    const mesh::Record &record = records_[static_cast<std::size_t>(i)];
    const std::size_t id = record.stream.communicator;
    if (id < communicators_.size() && communicators_[id] != nullptr) [[likely]]
      communicators_[id]->deliver(record);
    else mesh_->release(record);  // a communicator that is gone here
  }
  for (Communicator *communicator : communicators_)
    if (communicator != nullptr) communicator->retry();
  return count;
}

Result<> Engine::run(Communicator &communicator, const Call &call) {
  if (aborted()) [[unlikely]]
    look_around(0);
  TUTTI_TRY(exec::Execution * execution, communicator.start(call));
  if (!execution->done()) TUTTI_TRY(wait(communicator, *execution, Until::done));
  communicator.finish();
  if (mesh_->owes_acknowledgement()) [[unlikely]]
    return wait(communicator, *execution, Until::settled);
  return {};
}

Result<> Engine::wait(Communicator &communicator, exec::Execution &execution, Until until) {
  std::int64_t idle_since = 0;
  unsigned idle_polls = 0;
  bool yielding = policy_.spin_ns == 0, told = false;
  for (;;) {
    const int found = progress(std::max(1u, execution.open_steps()));
    if (communicator.failure()) [[unlikely]]
      return tl::unexpected<Error>(*communicator.failure());
    if (over(execution, until)) return {};
    if (found != 0) {
      idle_polls = 0;
      continue;
    }
    if (yielding) sched_yield();
    else pause_cpu();
    if (++idle_polls % kIdlePolls != 0) continue;
    const std::int64_t now = now_ns();
    if (idle_polls == kIdlePolls) {
      idle_since = now;
      yielding = policy_.spin_ns == 0;
    }
    look_around(now);
    if (communicator.failure()) return tl::unexpected<Error>(*communicator.failure());
    const std::int64_t idle = now - idle_since;
    if (idle > kTellNs && !told) {
      told = true;
      tell_waiting(communicator, execution);
    }
    if (idle > policy_.spin_ns) yielding = true;
    if (idle > policy_.spin_ns + policy_.yield_ns) sleep(execution, until);
  }
}

void Engine::look_around(std::int64_t now) {
  if (aborted()) {
    fail_all({Code::aborted, "tutti_abort was called in this process"});
    return;
  }
  if (control_ != nullptr) {
    const std::uint64_t changes = control_->changes().load(std::memory_order_acquire);
    if (changes != seen_changes_) {
      seen_changes_ = changes;
      control_->drain_event();
      for (const control::Death &death : control_->deaths())
        fail_all({Code::peer, fmt::format("rank {} is gone: {}", death.rank, death.reason), death.rank});
    }
  }
  std::vector<mesh::Breakage> fresh = mesh_->take_breakages();
  if (!fresh.empty()) {
    if (breakages_.empty()) explain_until_ns_ = control_ != nullptr ? now + kExplainNs : now;
    for (mesh::Breakage &breakage : fresh) breakages_.push_back(std::move(breakage));
  }
  if (!breakages_.empty() && now >= explain_until_ns_) {
    const mesh::Breakage &first = breakages_.front();
    give_up({Code::link, first.text, first.peer, 0, first.wc_status});
  }
}

// A failure of this rank's own. The others wait for messages that will not come, and most of them see nothing of it.
void Engine::give_up(const Error &error) {
  fail_all(error);
  if (control_ != nullptr) control_->abort("it cannot go on: " + error.text);
}

void Engine::fail_all(const Error &error) {
  for (Communicator *communicator : communicators_)
    if (communicator != nullptr) communicator->fail(error);
}

void Engine::sleep(const exec::Execution &execution, Until until) {
  if (const Result<> armed = mesh_->arm(); !armed) {
    give_up(armed.error());
    return;
  }
  const bool nothing_came =
      progress() == 0 && !over(execution, until) && !aborted() &&
      (control_ == nullptr || control_->changes().load(std::memory_order_acquire) == seen_changes_);
  if (nothing_came) {
    std::vector<pollfd> fds;
    for (const int fd : mesh_->fds()) fds.push_back({fd, POLLIN, 0});
    if (control_ != nullptr) fds.push_back({control_->event_fd(), POLLIN, 0});
    fds.push_back({wake_fd_, POLLIN, 0});
    const bool explaining = !breakages_.empty();
    ::poll(fds.data(), fds.size(), execution.waits_for_grant() || explaining ? kGrantNapMs : kSleepMs);
  }
  mesh_->disarm();
}

void Engine::abort() {
  aborted_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  // Only fails when the counter is full, which wakes just as well.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof(one));
}

}  // namespace tutti::comm

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
#include "base/hot.h"
#include "base/log.h"

namespace tutti::comm {
namespace {

// Idle polls between two looks at the clock and at what is off the data path.
constexpr unsigned kIdlePolls = 64;
// Idle polls between two calls of what else has to move (WaitPolicy::while_waiting), spinning and yielding:
// microseconds both, and little beside the polls themselves.
constexpr unsigned kElsewherePolls = 64, kElsewhereYields = 4;
// Looks of a blocking call at the board before anything else is polled: half a microsecond, in which an answer comes
// from a rank that has its own core.
constexpr unsigned kLooksAtBoard = 256;
// Polls for what came before the news of a death: as many as empty any queue, but for ranks that go on sending.
constexpr int kLastPolls = 64;
// How long a broken link may wait for control to say that the peer died, which is the better explanation.
constexpr std::int64_t kExplainNs = 3 * kNanosecondsPerSecond;
// How often ranks that wait ask for what does not come. Not on the way of any call that takes less than that.
constexpr std::int64_t kAskNs = kNanosecondsPerSecond / 4;
// A sleeper that waits for grants looks for itself: grants are written without an event; and so does who has something
// else to move.
constexpr int kGrantNapMs = 1;
// Upper bound on a sleep; only a safety net, since every event has a file descriptor. At most two wake-ups a second.
constexpr int kSleepMs = 500;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

WaitPolicy wait_policy(int ranks_per_core, const Config &config) {
  WaitPolicy policy;
  // With a core for each rank spinning costs nobody. With more ranks than cores the peer waited for may need this core:
  // give it away at once, and keep offering it, since yielding among runnable core-mates beats sleeping and being
  // woken.
  policy.spin_ns = ranks_per_core <= 1 ? 200'000 : 0;
  policy.yield_ns = ranks_per_core <= 1 ? 1'000'000 : 5'000'000;
  if (config.spin_us >= 0) policy.spin_ns = config.spin_us * 1000;
  policy.tell_ns = config.warn_after_s * kNanosecondsPerSecond;
  policy.timeout_ns = config.timeout_s * kNanosecondsPerSecond;
  return policy;
}

Result<std::unique_ptr<Engine>> Engine::create(std::unique_ptr<mesh::Mesh> mesh, control::Control *control,
                                               WaitPolicy policy) {
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return fail_errno(Code::system, errno, "cannot create an event descriptor");
  return std::unique_ptr<Engine>(new Engine(std::move(mesh), control, policy, wake_fd));
}

Engine::Engine(std::unique_ptr<mesh::Mesh> mesh, control::Control *control, WaitPolicy policy, int wake_fd)
    : mesh_(std::move(mesh)),
      control_(control),
      policy_(policy),
      wake_fd_(wake_fd),
      recorder_(communicators_),
      gathering_(mesh_->rank(), recorder_),
      live_(*mesh_),
      looks_at_board_(policy.spin_ns != 0 ? kLooksAtBoard : 1) {}

Engine::~Engine() { ::close(wake_fd_); }

void Engine::add(Communicator &communicator) {
  if (communicators_.size() <= communicator.id()) communicators_.resize(communicator.id() + std::size_t{1});
  TUTTI_CHECK(communicators_[communicator.id()] == nullptr);
  communicators_[communicator.id()] = &communicator;
  communicator.gathering = &gathering_;
  communicator.not_made = &not_made_;
  for (const Stray &stray : strays_)
    if (stray.record.stream.communicator == communicator.id()) communicator.catch_up(stray.record);
  // What has happened before it was there.
  for (const control::Death &death : deaths_) communicator.bury(death.rank, death.reason);
  for (const NotMade &notice : not_made_)
    if (communicator.concerned_by(notice)) communicator.miss(notice);
  if (failure_) communicator.fail(*failure_);
  attend(communicator);
}

void Engine::remove(Communicator &communicator) {
  communicators_[communicator.id()] = nullptr;
  std::erase(busy_, &communicator);
}

void Engine::expect_strays(bool on) {
  stray_takers_ += on ? 1 : -1;
  if (stray_takers_ == 0) strays_.clear();
}

void Engine::keep_stray(const mesh::Record &record) {
  Stray &stray = strays_.emplace_back(Stray{record, {record.payload, record.payload + record.bytes}});
  stray.record.payload = stray.bytes.data();
}

int Engine::progress(std::size_t most) {
  const int count = mesh_->poll(std::span(records_).first(std::min(most, kBatch)));
  if (count == 0 && !retry_due_) return 0;
  for (int i = 0; i < count; ++i) {
    const mesh::Record &record = records_[static_cast<std::size_t>(i)];
    const std::size_t id = record.stream.communicator;
    if (id < communicators_.size() && communicators_[id] != nullptr) [[likely]] {
      Communicator &communicator = *communicators_[id];
      touch(communicator);
      communicator.deliver(record);
      retry_due_ |= communicator.waits_for_grant();
    } else {
      if (stray_takers_ != 0) keep_stray(record);
      // Otherwise of a communicator that is gone here, though its children may be there.
      if (record.kind == link::Kind::failure && record.stream.call == kNotMade)
        if (const auto notice = Communicator::read_not_made(record)) not_made_.push_back(*notice);
      mesh_->release(record);
    }
  }
  if (mesh_->crowded()) [[unlikely]]
    mesh_->take_crowded([this](int rank) {
      for (Communicator *communicator : busy_) communicator->make_room(rank);
    });
  // What has ended leaves the list of the busy now and then: with one communicator, never.
  if (retry_due_ || busy_.size() > 1) retry();
  return count;
}

void Engine::retry() {
  retry_due_ = false;
  for (std::size_t i = 0; i < busy_.size();) {
    Communicator &communicator = *busy_[i];
    communicator.retry();
    const bool waits = communicator.waits_for_grant();
    retry_due_ |= waits;
    if (waits || communicator.running()) [[likely]] {
      ++i;
      continue;
    }
    communicator.listed = false;
    busy_[i] = busy_.back();
    busy_.pop_back();
  }
}

TUTTI_HOT void Engine::enter(Communicator &communicator) {
  if (aborted()) [[unlikely]]
    look_around(0);
  // Another thread sleeps for all: what is started here may be what it waits for, or wait for grants, which raise no
  // event.
  if (asleep_) [[unlikely]]
    wake();
  touch(communicator);
}

Result<Operation *> Engine::noted(Communicator &communicator, const Call &call, Result<Operation *> operation) {
  retry_due_ |= communicator.waits_for_grant();
  if (operation) [[likely]]
    recorder_.note(communicator, (*operation)->call, call.shape);
  return operation;
}

Result<Operation *> Engine::start(Communicator &communicator, const Call &call) {
  enter(communicator);
  return noted(communicator, call, communicator.start(call));
}

Result<Operation *> Engine::start(Communicator &communicator, Lane &lane, const Call &call) {
  enter(communicator);
  return noted(communicator, call, communicator.start(lane, call));
}

Result<> Engine::send(Communicator &communicator, match::SendOperation &send) {
  enter(communicator);
  recorder_.note(communicator, send);
  Result<> begun = communicator.send(send);
  retry_due_ |= communicator.waits_for_grant();
  return begun;
}

Result<> Engine::receive(Communicator &communicator, match::ReceiveOperation &receive) {
  enter(communicator);
  recorder_.note(communicator, receive);
  Result<> begun = communicator.receive(receive);
  retry_due_ |= communicator.waits_for_grant();
  return begun;
}

namespace {

// One operation of one communicator.
class OfOperation final : public OfCommunicator {
 public:
  OfOperation(Communicator &communicator, const Operation &operation)
      : OfCommunicator(communicator), operation_(operation) {}
  bool over() const override { return operation_.done; }
  std::string describe(std::int64_t seconds) const override { return communicator_.describe_wait(operation_, seconds); }

 private:
  const Operation &operation_;
};

}  // namespace

Result<> Engine::run(Communicator &communicator, const Call &call, Lock &lock) {
  TUTTI_TRY(Operation * operation, start(communicator, call));
  return complete(communicator, *operation, lock);
}

Result<> Engine::repeat(Communicator &communicator, const void *input, void *output, Lock &lock) {
  enter(communicator);
  Operation *const operation = communicator.repeat(input, output, looks_at_board_);
  if (operation == nullptr) [[unlikely]]
    return tl::unexpected<Error>(*communicator.failure());
  retry_due_ |= communicator.waits_for_grant();
  recorder_.note(communicator, operation->call, operation->shape);
  return complete(communicator, *operation, lock);
}

TUTTI_HOT Result<> Engine::complete(Communicator &communicator, Operation &operation, Lock &lock) {
  // It may be there already: in a stream of calls it is. Several threads have to be told (wait_for).
  if (!operation.done && !lock.owns_lock()) progress(std::max(1u, operation.execution.open_steps()));
  if (!operation.done) {
    OfOperation condition(communicator, operation);
    wait_for(
        condition, [&operation] { return std::max(1u, operation.execution.open_steps()); }, lock);
  }
  Result<> ended = communicator.finish(operation);
  if (mesh_->owes()) [[unlikely]]
    send_what_it_owes(lock);
  return ended;
}

void Engine::look_now() { look_around(now_ns()); }

void Engine::look() {
  if (++looks_ % kIdlePolls == 0 || aborted() || mesh_->troubled()) look_around(now_ns());
}

void Engine::wait(Condition &condition, Lock &lock) {
  if (!condition.over())
    wait_for(
        condition, [] { return kBatch; }, lock);
}

template <class What, class Most>
void Engine::wait_for(What &condition, Most most, Lock &lock) {
  std::int64_t idle_since = 0, silent_since = 0;
  std::uint64_t arrivals = 0;
  unsigned idle_polls = 0;
  bool yielding = policy_.spin_ns == 0, busy = true, told = false;
  const bool shared = lock.owns_lock(), elsewhere = policy_.while_waiting != nullptr && condition.in_a_call();
  for (;;) {
    const int found = progress(most());
    if (condition.over()) break;
    if (shared) [[unlikely]] {
      if (found != 0) tell_others();
      lock.unlock();
    }
    if (found != 0) busy = true;
    else if (yielding) sched_yield();
    else pause_cpu();
    if (elsewhere && found == 0 && idle_polls % (yielding ? kElsewhereYields : kElsewherePolls) == 1)
      policy_.while_waiting(policy_.waiting_user);
    if (shared) lock.lock();
    if (mesh_->troubled()) [[unlikely]]
      recover_links(now_ns());
    if (found != 0 || ++idle_polls % kIdlePolls != 0) continue;
    const std::int64_t now = now_ns();
    if (std::exchange(busy, false)) {
      idle_since = now;
      yielding = policy_.spin_ns == 0;
    }
    look_around(now);
    if (condition.over()) break;
    if (silent_since == 0 || condition.arrivals() != arrivals) {
      silent_since = now;
      arrivals = condition.arrivals();
    }
    recorder_.waiting(now);
    const std::int64_t silent = now - silent_since;
    if (silent > mesh_->probe_ns()) mesh_->probe(now);
    if (silent > policy_.tell_ns && policy_.tell_ns != 0 && !std::exchange(told, true))
      TUTTI_LOG(warn, "{}; it goes on waiting{}", condition.describe(silent / kNanosecondsPerSecond),
                mesh_->shortage());
    if (silent > policy_.timeout_ns && policy_.timeout_ns != 0) [[unlikely]] {
      condition.time_out(
          {Code::timeout, fmt::format("{}, as long as TUTTI_TIMEOUT allows{}",
                                      condition.describe(silent / kNanosecondsPerSecond), mesh_->shortage())});
      silent_since = 0;
      gather(lock);
    }
    const std::int64_t idle = now - idle_since;
    if (idle > policy_.spin_ns) yielding = true;
    if (idle > policy_.spin_ns + policy_.yield_ns) sleep(condition, lock);
  }
  if (shared) tell_others();  // one of them may have to sleep in this one's place
}

void Engine::look_around(std::int64_t now) {
  retry_due_ = true;  // what is found here may be a communicator's to pass on
  if (aborted()) {
    fail_all({Code::aborted, "tutti_abort was called in this process"});
    return;
  }
  if (control_ != nullptr) {
    const std::uint64_t changes = control_->changes().load(std::memory_order_acquire);
    if (changes != seen_changes_) {
      seen_changes_ = changes;
      control_->drain_event();
      const std::vector<control::Death> deaths = control_->deaths();
      // What a rank has said before it died counts, and may have come since the last poll.
      for (int polls = 0; deaths.size() != deaths_.size() && polls < kLastPolls && progress() != 0;) ++polls;
      for (std::size_t i = deaths_.size(); i < deaths.size(); ++i) bury(deaths[i]);
      for (const control::Letter &letter : control_->take_letters()) mesh_->hear(letter.from, letter.body, now_ns());
    }
    if (mesh_->troubled()) recover_links(now);
  }
  // Without trouble only sleepers look, whom events wake: it takes a system call.
  if (mesh_->troubled()) mesh_->read_events(now);
  mesh_->rearm_limits();
  if (now - asked_ns_ >= kAskNs) {
    asked_ns_ = now;
    for (std::size_t i = 0; i < busy_.size(); ++i) busy_[i]->ask();
  }
  if (not_made_seen_ != not_made_.size()) hear_not_made();
  live_.look(*mesh_, failure_.has_value(), now);
  std::vector<mesh::Breakage> fresh = mesh_->take_breakages();
  std::erase_if(fresh, [this](const mesh::Breakage &breakage) { return is_dead(breakage.peer); });
  if (!fresh.empty()) {
    if (breakages_.empty()) {
      // Who was refused waits for longer, and who has only heard of it for longest, so that the rank that knows why is
      // the first to tell.
      const mesh::Breakage &first = fresh.front();
      const int turns = first.hearsay ? 3 : first.refused ? 2 : 1;
      explain_until_ns_ = control_ != nullptr && !first.own_fault ? now + turns * kExplainNs : now;
    }
    for (mesh::Breakage &breakage : fresh) breakages_.push_back(std::move(breakage));
  }
  if (!breakages_.empty() && now >= explain_until_ns_) {
    const mesh::Breakage &first = breakages_.front();
    give_up({Code::link, first.text, first.peer, 0, first.wc_status});
  }
}

void Engine::recover_links(std::int64_t now) {
  mesh_->recover(now);
  for (const mesh::Letter &letter : mesh_->take_letters())
    if (control_ != nullptr) control_->post(letter.to, letter.body);
}

// A failure of this rank's own. The others wait for messages that will not come, and most of them see nothing of it.
void Engine::give_up(const Error &error) {
  fail_all(error);
  if (control_ != nullptr) control_->abort("it cannot go on: " + error.text);
}

void Engine::fail_all(const Error &error) {
  if (!failure_) failure_ = error;
  for (Communicator *communicator : communicators_)
    if (communicator != nullptr) communicator->fail(error);
}

bool Engine::waits_in_silence() const {
  return std::ranges::any_of(busy_, [](const Communicator *communicator) { return communicator->waits_in_silence(); });
}

void Engine::sleep(const Condition &condition, Lock &lock) {
  const bool shared = lock.owns_lock(), elsewhere = policy_.while_waiting != nullptr && condition.in_a_call();
  if (asleep_) {
    if (waits_in_silence()) wake();  // that one may not know that it has to look for grants
    if (elsewhere) {
      lock.unlock();
      ::poll(nullptr, 0, kGrantNapMs);
      lock.lock();
      return;
    }
    const std::uint32_t news = news_.load();
    lock.unlock();
    news_.wait(news);
    lock.lock();
    return;
  }
  if (const Result<> armed = mesh_->arm(); !armed) {
    give_up(armed.error());
    return;
  }
  const bool nothing_came =
      progress() == 0 && !condition.over() && !aborted() &&
      (control_ == nullptr || control_->changes().load(std::memory_order_acquire) == seen_changes_);
  if (nothing_came) {
    std::vector<pollfd> fds;
    for (const int fd : mesh_->fds()) fds.push_back({fd, POLLIN, 0});
    if (control_ != nullptr) fds.push_back({control_->event_fd(), POLLIN, 0});
    fds.push_back({wake_fd_, POLLIN, 0});
    const bool impatient = elsewhere || waits_in_silence() || !breakages_.empty() || mesh_->reconnecting();
    const int nap_ms = impatient ? kGrantNapMs : kSleepMs;
    asleep_ = true;
    if (shared) lock.unlock();
    ::poll(fds.data(), fds.size(), nap_ms);
    if (shared) lock.lock();
    asleep_ = false;
    mesh_->read_events(now_ns());
    std::uint64_t woken = 0;
    // Empty if nobody woke it. Aborts are flags, too, and are not lost here.
    [[maybe_unused]] const ssize_t read = ::read(wake_fd_, &woken, sizeof(woken));
  }
  mesh_->disarm();
  if (shared) tell_others();
}

void Engine::wake() {
  const std::uint64_t one = 1;
  // Only fails when the counter is full, which wakes just as well.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof(one));
}

void Engine::spread_news() {
  news_.fetch_add(1);
  news_.notify_all();
}

void Engine::tell_others() {
  spread_news();
  if (asleep_) wake();
}

void Engine::abort() {
  aborted_.store(true, std::memory_order_release);
  wake();
}

}  // namespace tutti::comm

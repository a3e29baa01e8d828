// SPDX-License-Identifier: BSD-3-Clause
#include "control/threaded_control.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "control/address.h"
#include "net/poll_until.h"
#include "net/rank_list.h"

namespace tutti::control {
namespace {

// A rank refuses for good if each of its addresses failed this often in a row; the attempts span about 0.3 s, more than
// a full backlog or an interface that comes up needs.
constexpr int kMostFailures = 5;

// Strangers and ranks on their way; only about two connections per distance are ever ours.
constexpr std::size_t kMostPending = 256;

void signal_event(const net::Fd &event) {
  const std::uint64_t one = 1;
  // A full counter is readable already, which is all that is wanted.
  [[maybe_unused]] const ssize_t written = ::write(event.get(), &one, sizeof one);
}

void drain(const net::Fd &event) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(event.get(), &count, sizeof count);
}

// The host program's signals are for its own threads: a new thread inherits the mask, so all are blocked around it.
template <class Body>
Result<std::thread> thread_without_signals(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> thread;
  try {
    thread.emplace(std::move(body));
  } catch (const std::system_error &error) {
    thread = fail_errno(Code::limit, error.code().value(), "cannot start the control thread (see ulimit -u)");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (thread) pthread_setname_np(thread->native_handle(), "tutti-control");
  return thread;
}

}  // namespace

ThreadedControl::ThreadedControl(const Options &options, std::vector<net::Fd> listeners, const Address &address,
                                 net::Fd event, net::Fd wake)
    : options_(options),
      address_(address),
      event_(std::move(event)),
      wake_(std::move(wake)),
      listeners_(std::move(listeners)) {}

ThreadedControl::~ThreadedControl() { stop(); }

Result<> ThreadedControl::connect(std::span<const Address> addresses, Deadline deadline) {
  if (options_.ranks == 1) return {};
  if (thread_.joinable() || addresses.size() != static_cast<std::size_t>(options_.ranks))
    return fail(Code::state, "control connects once, with the addresses of all ranks");
  // The addresses are known to this job only: bound to them, the key fits no other job that was given the same secret,
  // and a port that another job reuses is never taken for one of ours.
  std::string secret = options_.job_key;
  for (const Address &address : addresses) {
    endpoints_.push_back(decode_address(address));
    if (endpoints_.back().empty())
      return fail(Code::bootstrap, "rank {} sent no usable control address", endpoints_.size() - 1);
    secret.append(reinterpret_cast<const char *>(address.bytes), sizeof address.bytes);
  }
  key_ = net::derive_key(secret, "control");
  gate_.emplace(std::move(listeners_), key_, kFrameLimit, kMostPending);
  machine_.emplace(Machine::Setup{.rank = options_.rank,
                                  .ranks = options_.ranks,
                                  .heartbeat_ns = options_.heartbeat_s * kNanosecondsPerSecond,
                                  .peer_timeout_ns = options_.peer_timeout_s * kNanosecondsPerSecond},
                   now_ns());
  awaited_.assign(machine_->awaited().begin(), machine_->awaited().end());
  TUTTI_TRY(thread_, thread_without_signals([this] { run(); }));
  wait_until(deadline, [this] { return ready_ || !deaths_.empty(); });
  const std::lock_guard lock(mutex_);
  if (!deaths_.empty()) {
    auto error = fail(Code::peer, "rank {} was lost while ranks connected: {}", deaths_[0].rank, deaths_[0].reason);
    error.value().peer = deaths_[0].rank;
    return error;
  }
  if (ready_) return {};
  auto error = fail(Code::timeout, "start-up deadline passed: {} did not answer on the control network{}",
                    net::rank_list(awaited_), trouble_);
  error.value().peer = awaited_.front();
  return error;
}

void ThreadedControl::wait_until(Deadline deadline, const std::function<bool()> &condition) {
  std::unique_lock lock(mutex_);
  while (!condition()) {
    const int left = deadline.left_ms();
    if (left == 0) return;
    if (left < 0) published_.wait(lock);
    else published_.wait_for(lock, std::chrono::milliseconds(left));
  }
}

std::vector<Death> ThreadedControl::deaths() const {
  const std::lock_guard lock(mutex_);
  return deaths_;
}

void ThreadedControl::post(int rank, std::span<const std::byte> body) {
  TUTTI_CHECK(rank >= 0 && rank < options_.ranks && rank != options_.rank, "there is no other rank {}", rank);
  TUTTI_CHECK(!body.empty() && body.size() <= kLetterBytes, "a letter has 1 to {} bytes, not {}", kLetterBytes,
              body.size());
  {
    const std::lock_guard lock(mutex_);
    posted_.push(rank, net::Bytes(body.begin(), body.end()));
  }
  wake();
}

// The thread need not hear of it before the next time it looks.
std::vector<Letter> ThreadedControl::take_letters() {
  const std::lock_guard lock(mutex_);
  std::vector<Letter> letters;
  if (!letters_.empty()) letters_taken_ = letters_.rbegin()->first;
  for (auto &[number, letter] : letters_) letters.push_back(std::move(letter));
  letters_.clear();
  return letters;
}

void ThreadedControl::drain_event() { drain(event_); }
void ThreadedControl::wake() { signal_event(wake_); }

void ThreadedControl::leave(Deadline deadline) {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leave_requested_ = true;
  }
  wake();
  wait_until(deadline, [this] { return left_; });
  stop();
}

void ThreadedControl::abort(const std::string &reason) {
  {
    const std::lock_guard lock(mutex_);
    if (abort_requested_) return;
    abort_requested_ = reason.empty() ? "it left with tutti_abort" : reason;
  }
  wake();
}

void ThreadedControl::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_requested_ = true;
  }
  wake();
  thread_.join();
  links_.clear();
  calls_.clear();
  gate_.reset();
}

void ThreadedControl::run() {
  bool stopping = false;
  while (!stopping) {
    stopping = take_requests();
    const std::int64_t now = now_ns();
    answer_gate(now);
    advance_calls(now);
    read_links(now);
    if (now >= machine_->next_time()) machine_->tick(now);
    act();
    flush_links();
    publish();
    if (!stopping) wait();
  }
}

// True if the thread is to end after this round, in which a request to abort still goes out.
bool ThreadedControl::take_requests() {
  drain(wake_);
  const std::lock_guard lock(mutex_);
  machine_->taken(letters_taken_);
  for (auto &[rank, bodies] : posted_.take_all())
    for (net::Bytes &body : bodies) machine_->post(rank, std::move(body));
  if (abort_requested_) machine_->abort(*abort_requested_);
  if (leave_requested_) machine_->leave();
  return stop_requested_;
}

void ThreadedControl::answer_gate(std::int64_t now) {
  for (net::Gate::Arrival &arrival : gate_->service(now)) {
    const std::optional<Message> intro = decode(arrival.first_message);
    const bool fits = intro && intro->kind == Kind::intro && intro->to == options_.rank && intro->from >= 0 &&
                      intro->from < options_.ranks && intro->from != options_.rank;
    if (!fits || !machine_->may_link(intro->from)) continue;  // its connection closes
    arrival.connection->session().send(encode({.kind = Kind::accept, .from = options_.rank, .to = intro->from}));
    add_link(intro->from, std::move(arrival.connection), now);
  }
}

void ThreadedControl::advance_calls(std::int64_t now) {
  for (auto call = calls_.begin(); call != calls_.end();)
    call = advance_call(*call, now) ? calls_.erase(call) : std::next(call);
}

// True once the call is over, one way or the other.
bool ThreadedControl::advance_call(Call &call, std::int64_t now) {
  if (!machine_->may_link(call.rank)) return true;
  // Who leaves makes no new links. One that the other end may know of already has to become one, for the goodbye.
  if (machine_->leaving() && !call.connection) return true;
  if (!call.connection) {
    if (!call.dialer) call.dialer.emplace(endpoints_[static_cast<std::size_t>(call.rank)], key_, kFrameLimit);
    call.connection = call.dialer->service(now);
    if (!call.connection) {
      if (call.dialer->failures() + call.lost < kMostFailures) return false;
      machine_->unreachable(call.rank, call.dialer->trouble());
      return true;
    }
    call.dialer.reset();
    call.answer_by = now + net::kHelloNanoseconds;
    call.connection->session().send(encode({.kind = Kind::intro, .from = options_.rank, .to = call.rank}));
    call.connection->flush();
  }
  call.connection->receive(now);
  if (const auto payload = call.connection->session().next_message()) {
    const std::optional<Message> answer = decode(*payload);
    if (answer && answer->kind == Kind::accept && answer->from == call.rank && answer->to == options_.rank) {
      add_link(call.rank, std::move(call.connection), now);
      return true;
    }
    call.connection.reset();
  }
  if (call.connection && !call.connection->over() && now < call.answer_by) return false;
  // Not the rank we want, or it ended: from the start, a few times.
  call.connection.reset();
  if (++call.lost < kMostFailures) return false;
  machine_->unreachable(call.rank, "its connection ended before it answered");
  return true;
}

// Some other end may have a link to this rank already that is none here yet.
bool ThreadedControl::introduced() const {
  return std::ranges::any_of(calls_, [](const Call &call) { return call.connection != nullptr; });
}

void ThreadedControl::add_link(int peer, std::unique_ptr<net::Connection> connection, std::int64_t now) {
  // See messages.h: heartbeats alone do not wake this thread. Where the option is not supported they do, harmlessly.
  const int low_water = static_cast<int>(kWakeBytes);
  ::setsockopt(connection->socket().get(), SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof low_water);
  const int number = next_link_++;
  links_.emplace(number, Link{.peer = peer, .connection = std::move(connection)});
  machine_->opened(number, peer, now);
}

void ThreadedControl::read_links(std::int64_t now) {
  for (auto entry = links_.begin(); entry != links_.end();) {
    auto &[number, link] = *entry;
    if (link.clogged) {
      link.connection->flush();
      link.clogged = !link.connection->session().output().empty();
      if (!link.clogged) machine_->clogged(number, false);
    }
    link.connection->receive(now);
    while (const auto payload = link.connection->session().next_message())
      if (const std::optional<Message> message = decode(*payload)) machine_->received(number, *message, now);
    if (link.connection->over()) machine_->closed(number, link.connection->ending());
    entry = link.connection->over() ? links_.erase(entry) : std::next(entry);
  }
}

void ThreadedControl::act() {
  for (Action &action : machine_->take_actions()) {
    if (auto *send = std::get_if<Send>(&action)) {
      const auto link = links_.find(send->link);
      if (link != links_.end()) link->second.connection->session().send(encode(send->message));
    } else if (const auto *close = std::get_if<Close>(&action)) {
      const auto link = links_.find(close->link);
      if (link != links_.end()) link->second.closing = true;
    } else if (const auto *dial = std::get_if<Dial>(&action)) {
      calls_.push_back({.rank = dial->rank});  // wait() sees that it has not begun
    } else if (auto *death = std::get_if<Report>(&action)) {
      report(std::move(death->death));
    } else if (auto *delivery = std::get_if<Deliver>(&action)) {
      deliver(std::move(*delivery));
    } else if (const auto *discard = std::get_if<Discard>(&action)) {
      const std::lock_guard lock(mutex_);
      letters_.erase(discard->number);
    }
  }
}

void ThreadedControl::flush_links() {
  for (auto entry = links_.begin(); entry != links_.end();) {
    auto &[number, link] = *entry;
    link.connection->flush();
    if (!link.clogged && !link.connection->session().output().empty()) {
      link.clogged = true;
      machine_->clogged(number, true);
    }
    entry = link.closing ? links_.erase(entry) : std::next(entry);
  }
}

void ThreadedControl::report(Death death) {
  {
    const std::lock_guard lock(mutex_);
    deaths_.push_back(std::move(death));
  }
  announce_change();
}

void ThreadedControl::deliver(Deliver delivery) {
  {
    const std::lock_guard lock(mutex_);
    letters_.emplace(delivery.number, std::move(delivery.letter));
  }
  announce_change();
}

void ThreadedControl::announce_change() {
  // Release: who sees the new count finds the death or letter in its list (the mutex orders the list itself).
  changes_.fetch_add(1, std::memory_order_release);
  signal_event(event_);
}

void ThreadedControl::publish() {
  const std::lock_guard lock(mutex_);
  ready_ = ready_ || machine_->ready();
  left_ = machine_->left() && !introduced();
  awaited_.assign(machine_->awaited().begin(), machine_->awaited().end());
  trouble_.clear();
  for (const Call &call : calls_)
    if (call.dialer && trouble_.empty()) trouble_ = fmt::format(" (rank {}: {})", call.rank, call.dialer->trouble());
  published_.notify_all();
}

void ThreadedControl::wait() {
  std::vector<pollfd> polls = {{wake_.get(), POLLIN, 0}};
  std::int64_t until = std::min(machine_->next_time(), gate_->next_time());
  gate_->add_polls(polls);
  for (const auto &[number, link] : links_)
    polls.push_back({link.connection->socket().get(), link.connection->events(), 0});
  for (const Call &call : calls_) {
    if (call.dialer) {
      call.dialer->add_polls(polls);
      until = std::min(until, call.dialer->next_time());
    } else if (call.connection) {
      polls.push_back({call.connection->socket().get(), call.connection->events(), 0});
      until = std::min(until, call.answer_by);
    } else {
      until = 0;  // to be dialled again at once
    }
  }
  net::poll_until(polls, until);
}

}  // namespace tutti::control

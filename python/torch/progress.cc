// SPDX-License-Identifier: BSD-3-Clause
#include "progress.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace tutti_torch {
namespace {

// How long the caller of a brief operation looks for its end. What two ranks in step need for the largest brief one,
// and about as long as it takes to wake a thread and be woken by it.
constexpr std::chrono::microseconds kBrief{100};
// How long who waits polls: what calls of up to 1 MiB need, for which the change to the thread would count. Longer ones
// are better left to the thread where other programs want the cores: who sleeps and wakes is put on one that is idle.
constexpr std::chrono::microseconds kHelp{250};
// How often the thread looks for what was left open: seldom enough to cost a call nothing, about 4 us a look.
constexpr std::chrono::milliseconds kNap{1};
// After so many looks without a call it sleeps until there is one.
constexpr int kNaps = 10;
// Polls without giving the core away; a peer may need it. Who waits for a longer operation gives it away less often:
// where others want it, too, each time may cost a slice of theirs.
constexpr int kPolls = 30, kPollsOfHelp = 128;

tutti_status of_result(tutti_result result) {
  tutti_status status = {};
  status.source = -1;
  status.tag = -1;
  status.result = result;
  return status;
}

void end(Operation &operation, const tutti_status &status, const std::string &text) {
  if (status.result == TUTTI_SUCCESS) return operation.ended(status, nullptr);
  const Error error(status.result, operation.describe() + ": " + text);
  operation.ended(status, &error);
}

}  // namespace

Progress::Progress(std::shared_ptr<World> world, tutti_comm *comm) : world_(std::move(world)), comm_(comm) {
  std::int32_t rank = 0;
  check("tutti_comm_rank", tutti_comm_rank(comm_, &rank));
  check("tutti_comm_split", tutti_comm_split(comm_, rank, 0, &bell_));
}

Progress::~Progress() { stop("the process group has been destroyed"); }

void Progress::submit(std::shared_ptr<Operation> operation, const Start &start, bool brief) {
  std::unique_lock order(starts_);
  bool alone = false;
  {
    const std::scoped_lock lock(mutex_);
    alone = under_way_ == 0;
  }
  if (stopped_) {
    order.unlock();
    return end(*operation, of_result(TUTTI_ERROR_STATE), why_stopped_);
  }
  Active one{std::move(operation), nullptr};
  if (const tutti_result result = start(comm_, &one.request); result != TUTTI_SUCCESS) {
    order.unlock();
    return end(*one.operation, of_result(result), text_of(result));
  }
  if (brief && alone && poll_for(one, kBrief, 1)) return;
  const std::scoped_lock lock(mutex_);
  ++under_way_;
  ++opened_;
  const bool others = !open_.empty();
  open_.push_back(std::move(one));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  if (others || !waits_) hurry();
  else if (std::exchange(asleep_, false)) come_.notify_one();
}

bool Progress::poll_for(Active &one, std::chrono::microseconds limit, int yield_every) {
  const auto until = std::chrono::steady_clock::now() + limit;
  for (int polls = 0;; ++polls) {
    std::int32_t done = 0;
    tutti_status status = {};
    const tutti_result result = tutti_test(&one.request, &done, &status);
    if (done != 0) {
      status.result = result;
      end(*one.operation, status, result == TUTTI_SUCCESS ? "" : text_of(result));
      return true;
    }
    if (polls >= kPolls && polls % yield_every == 0) sched_yield();
    if (polls % 8 == 7 && (stopped_ || std::chrono::steady_clock::now() >= until)) return false;
  }
}

void Progress::help(const Operation &operation, bool at_once, std::chrono::microseconds limit) {
  std::unique_lock lock(mutex_);
  waits_ = at_once;
  const auto found = find(operation);
  if (found == open_.end() || stopped_) return;
  Active one = std::move(*found);
  open_.erase(found);
  if (open_.empty()) hurried_ = false;
  ++helpers_;
  lock.unlock();
  const bool ended = poll_for(one, std::min(limit, kHelp), kPollsOfHelp);
  lock.lock();
  --helpers_;
  if (ended) {
    over(1);
  } else {  // even to a thread that is about to stop: it ends what is left
    open_.push_back(std::move(one));
    hurry();
  }
  if (stopped_) come_.notify_one();
}

void Progress::attend(const Operation &operation) {
  const std::scoped_lock lock(mutex_);
  if (find(operation) != open_.end()) hurry();
}

// With the mutex held.
std::vector<Progress::Active>::iterator Progress::find(const Operation &operation) {
  return std::find_if(open_.begin(), open_.end(), [&](const Active &one) { return one.operation.get() == &operation; });
}

// With the mutex held.
void Progress::over(std::size_t count) {
  under_way_ -= count;
  idled_.notify_all();
}

// With the mutex held.
void Progress::hurry() {
  if ((open_.empty() && !stopped_) || std::exchange(hurried_, true)) return;
  if (waiting_) ring();
  else come_.notify_one();
}

void Progress::ring() {
  tutti_request *request = nullptr;
  // Done at once: nothing is as short. Where it fails so has the thread's wait for it.
  if (tutti_isend(nullptr, 0, TUTTI_BYTE, 0, 0, bell_, &request) == TUTTI_SUCCESS) tutti_wait(&request, nullptr);
}

void Progress::run() {
  std::vector<Active> active;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (active.empty()) look_out(lock);
    if (stopped_) come_.wait(lock, [this] { return helpers_ == 0; });
    if (stopped_ || hurried_ || active.empty()) {
      for (Active &one : open_) active.push_back(std::move(one));
      open_.clear();
      hurried_ = false;
    }
    if (stopped_) break;
    if (active.empty()) continue;
    waiting_ = true;
    const std::size_t before = active.size();
    lock.unlock();
    wait_for_some(active);
    lock.lock();
    waiting_ = false;
    over(before - active.size());
  }
  lock.unlock();
  for (Active &one : active) {
    end(*one.operation, of_result(TUTTI_ERROR_STATE), why_stopped_);
    world_->keep(std::move(one.operation));
  }
}

void Progress::look_out(std::unique_lock<std::mutex> &lock) {
  const auto called = [this] { return stopped_ || hurried_; };
  for (int quiet = 0; !called();) {
    if (quiet == kNaps) {
      asleep_ = true;
      come_.wait(lock, [&] { return !asleep_ || called(); });
      asleep_ = false;
      quiet = 0;
      continue;
    }
    const std::uint64_t before = opened_;
    if (come_.wait_for(lock, kNap, called)) return;
    if (!open_.empty()) {
      waits_ = false;
      return;
    }
    quiet = opened_ == before ? quiet + 1 : 0;
  }
}

void Progress::wait_for_some(std::vector<Active> &active) {
  if (bell_request_ == nullptr) tutti_irecv(nullptr, 0, TUTTI_BYTE, 0, 0, bell_, &bell_request_);
  std::vector<tutti_request *> requests;
  requests.reserve(active.size() + 1);
  for (const Active &one : active) requests.push_back(one.request);
  requests.push_back(bell_request_);  // last: the first that is not done is what texts about waiting name
  std::vector<std::int32_t> places(requests.size());
  std::vector<tutti_status> statuses(requests.size());
  std::size_t done = 0;
  const tutti_result result = tutti_wait_some(requests.size(), requests.data(), &done, places.data(), statuses.data());
  const std::string text = result == TUTTI_SUCCESS ? "" : text_of(result);
  if (result != TUTTI_SUCCESS && done == 0) {  // not of an operation: none of them can be waited for
    for (const Active &one : active) end(*one.operation, of_result(result), text);
    for (Active &one : active) world_->keep(std::move(one.operation));
    return active.clear();
  }
  bell_request_ = requests.back();
  for (std::size_t i = 0; i < active.size(); ++i) active[i].request = requests[i];
  for (std::size_t i = 0; i < done; ++i) {
    const auto place = static_cast<std::size_t>(places[i]);
    if (place == active.size()) continue;
    const tutti_status &status = statuses[i];
    end(*active[place].operation, status, status.result == result ? text : tutti_result_name(status.result));
    active[place].operation = nullptr;
  }
  std::erase_if(active, [](const Active &one) { return one.operation == nullptr; });
}

void Progress::stop(const std::string &why) {
  const std::scoped_lock order(starts_);
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_) return;
    why_stopped_ = why;
    stopped_ = true;
    hurried_ = false;
    hurry();
  }
  if (thread_.joinable()) thread_.join();
}

void Progress::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  hurry();
  idled_.wait_for(lock, limit, [this] { return under_way_ == 0; });
}

tutti_comm *Progress::shrink() {
  tutti_comm *made = nullptr;
  check("tutti_comm_shrink", tutti_comm_shrink(comm_, &made));
  return made;
}

std::vector<std::int32_t> Progress::failed_ranks() const {
  std::int32_t size = 0;
  check("tutti_comm_size", tutti_comm_size(comm_, &size));
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(size));
  std::size_t count = ranks.size();
  check("tutti_comm_failed", tutti_comm_failed(comm_, &count, ranks.data()));
  ranks.resize(count);
  return ranks;
}

}  // namespace tutti_torch

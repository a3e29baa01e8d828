// SPDX-License-Identifier: BSD-3-Clause
#include "work.h"

#include <torch/csrc/utils/pybind.h>

#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "tensors.h"

namespace tutti_torch {
namespace {

// How often a wait looks for Ctrl-C.
constexpr std::chrono::milliseconds kLook{50};
// Who waits so soon after a call has returned has done nothing in between: Python needs 1 to 3 us.
constexpr std::chrono::microseconds kAtOnce{30};

// Completes futures, whose callbacks are the program's: they may start operations and wait for their futures, so they
// must not run in the thread that completes operations, nor one behind another. As many threads as callbacks wait at
// once, from the first on, to the end of the process.
class Callbacks {
 public:
  static Callbacks &get() {
    static auto *callbacks = new Callbacks;  // never destroyed: its thread may outlive static objects
    return *callbacks;
  }
  void run(std::function<void()> call) {
    const std::scoped_lock lock(mutex_);
    calls_.push_back(std::move(call));
    if (idle_ < calls_.size()) std::thread([this] { serve(); }).detach();
    come_.notify_one();
  }

 private:
  void serve() {
    for (;;) {
      std::unique_lock lock(mutex_);
      ++idle_;
      come_.wait(lock, [this] { return !calls_.empty(); });
      --idle_;
      const std::function<void()> call = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      call();
    }
  }

  std::mutex mutex_;
  std::condition_variable come_;
  std::deque<std::function<void()>> calls_;
  std::size_t idle_ = 0;
};

// Python's signal handlers run in its main thread only, when that looks. Throws what they raise: KeyboardInterrupt.
void look_for_signals() {
  if (Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr) return;
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

}  // namespace

Work::Work(int rank, Parts parts, std::weak_ptr<Progress> progress)
    : c10d::Work(rank, parts.type, parts.title, parts.inputs),
      parts_(std::move(parts)),
      progress_(std::move(progress)) {}

std::string Work::describe() const {
  const std::vector<at::Tensor> &some = parts_.inputs.empty() ? parts_.outputs : parts_.inputs;
  return c10::str(std::strchr(parts_.title, ':') + 1, some.empty() ? "" : " of " + tutti_torch::describe(some.front()),
                  some.size() > 1 ? " and more" : "", " on rank ", rank_,
                  parts_.peer >= 0 ? c10::str(parts_.receives ? " from" : " to", " rank ", parts_.peer) : "");
}

bool Work::wait(std::chrono::milliseconds timeout) {
  const bool of_call = timeout == kNoTimeout;
  if (of_call) timeout = parts_.timeout;
  const Clock::time_point now = Clock::now(), until = (of_call ? began_ : now) + timeout;
  std::unique_lock lock(mutex_);
  if (!completed_) {
    lock.unlock();
    if (const std::shared_ptr<Progress> progress = progress_.lock()) {
      const Clock::duration limit = timeout == kNoTimeout ? Clock::duration::max() : until - now;
      progress->help(*this, now - started_ < kAtOnce, std::chrono::duration_cast<std::chrono::microseconds>(limit));
    }
    lock.lock();
  }
  while (!completed_) {
    auto nap = kLook;
    if (timeout > kNoTimeout) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
      if (left.count() <= 0)
        throw std::runtime_error(
            c10::str(describe(), ": not done after ", timeout.count(), " ms; it is still under way"));
      nap = std::min(nap, left);
    }
    if (cv_.wait_for(lock, nap, [this] { return completed_; })) break;
    lock.unlock();
    look_for_signals();
    lock.lock();
  }
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

bool Work::isCompleted() {
  std::unique_lock lock(mutex_);
  if (completed_) return true;
  lock.unlock();
  if (const std::shared_ptr<Progress> progress = progress_.lock()) progress->attend(*this);
  return false;
}

int Work::sourceRank() const {
  const std::scoped_lock lock(mutex_);
  TORCH_CHECK(parts_.type == c10d::OpType::RECVANYSOURCE || parts_.type == c10d::OpType::RECV, describe(),
              " has no source rank: it is no receive");
  return source_;
}

void Work::ended(const tutti_status &status, const Error *error) noexcept {
  std::exception_ptr failure;
  try {
    if (error != nullptr) throw *error;
    if (parts_.receives && status.bytes != parts_.bytes)
      throw Error(TUTTI_ERROR_MISMATCH, c10::str(describe(), ": rank ", status.source, " has sent ", status.bytes,
                                                 " bytes, and the tensor has ", parts_.bytes,
                                                 ": sender and receiver differ in shape or type"));
    if (parts_.afterwards) parts_.afterwards();
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::scoped_lock lock(mutex_);
    source_ = status.source;
    parts_.buffers.clear();
    parts_.afterwards = nullptr;
  }
  finish(failure);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::scoped_lock lock(mutex_);
    if (future_ && !std::exchange(future_told_, true)) future = future_;
  }
  if (future)
    Callbacks::get().run([self = c10::intrusive_ptr<Work>::reclaim_copy(this), future] { self->complete(*future); });
}

void Work::complete(c10::ivalue::Future &future) const {
  if (exception_) future.setError(exception_);
  else future.markCompleted(c10::IValue(parts_.outputs));
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  std::unique_lock lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  auto future = future_;
  // Between the end and its being told: whoever comes first tells.
  const bool done = completed_ && !std::exchange(future_told_, true);
  const bool open = !completed_;
  lock.unlock();
  if (done) complete(*future);
  const std::shared_ptr<Progress> progress = progress_.lock();
  if (open && progress) progress->attend(*this);
  return future;
}

}  // namespace tutti_torch

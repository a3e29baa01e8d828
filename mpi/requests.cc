// SPDX-License-Identifier: BSD-3-Clause
#include "requests.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <utility>

#include "state.h"

namespace tutti::mpi {
namespace {

int describe(void *, MPI_Status *status) {
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return MPI_SUCCESS;
}
int release(void *) { return MPI_SUCCESS; }
int cancel(void *, int) { return MPI_SUCCESS; }

}  // namespace

struct Requests::Persistent {
  std::shared_ptr<Operation> operation;
  tutti_comm *tutti = nullptr;
  tutti_request *request = nullptr;
  MPI_Comm comm = MPI_COMM_NULL;
  int tag = 0;
  char nothing = 0;  // where the message of no bytes is received
};

Requests &requests() {
  static Requests &all = *new Requests;  // as state()
  return all;
}

bool nothing_of_tutti() { return Inside::now() || !state().up || !requests().any(); }

bool Requests::any_persistent() {
  const std::lock_guard lock(mutex_);
  return !persistent_.empty();
}

void Requests::add(tutti_request *request, Started started) {
  const std::lock_guard lock(mutex_);
  requests_.push_back(request);
  started_.push_back(std::move(started));
  active_.fetch_add(1, std::memory_order_relaxed);
}

void Requests::remove(std::size_t index) {
  requests_[index] = requests_.back();
  requests_.pop_back();
  std::swap(started_[index], started_.back());
  started_.pop_back();
  active_.fetch_sub(1, std::memory_order_relaxed);
}

int Requests::start(const Communicator &communicator, std::unique_ptr<Operation> operation, MPI_Comm comm,
                    MPI_Request *request) {
  const int packed = operation->pack();
  if (packed != MPI_SUCCESS) return raise_mpi(comm, packed);
  tutti_request *started = nullptr;
  const tutti_result result = tutti_start_call(&operation->call(), communicator.tutti, &started);
  if (result != TUTTI_SUCCESS) return raise(comm, result);
  const int status = PMPI_Grequest_start(describe, release, cancel, nullptr, request);
  if (status != MPI_SUCCESS) return raise_mpi(comm, status);
  add(started, {.operation = std::move(operation), .tutti = communicator.tutti, .comm = comm, .handle = *request});
  return MPI_SUCCESS;
}

int Requests::create(const Communicator &communicator, std::unique_ptr<Operation> operation, MPI_Comm comm,
                     MPI_Request *request) {
  auto made = std::make_unique<Persistent>();
  const tutti_result result = tutti_call_init(&operation->call(), communicator.tutti, &made->request);
  if (result != TUTTI_SUCCESS) return raise(comm, result);
  made->operation = std::move(operation);
  made->tutti = communicator.tutti;
  made->comm = comm;
  const std::lock_guard lock(mutex_);
  made->tag = next_tag_;
  // Nobody has so many persistent requests active that a tag comes again too early.
  next_tag_ = next_tag_ == kLastRequestTag ? kFirstRequestTag : next_tag_ + 1;
  const int status = PMPI_Recv_init(&made->nothing, 0, MPI_BYTE, 0, made->tag, state().self, request);
  if (status != MPI_SUCCESS) return raise_mpi(comm, status);
  persistent_.emplace(*request, std::move(made));
  return MPI_SUCCESS;
}

bool Requests::start_persistent(MPI_Request *request, int *status) {
  Persistent *found = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto at = persistent_.find(*request);
    if (at == persistent_.end()) return false;
    found = at->second.get();
  }
  *status = found->operation->pack();
  if (*status != MPI_SUCCESS) {
    raise_mpi(found->comm, *status);
    return true;
  }
  if (const tutti_result result = tutti_start(found->request); result != TUTTI_SUCCESS) {
    *status = raise(found->comm, result);
    return true;
  }
  *status = own().Start(request);
  add(found->request, {.operation = found->operation, .tutti = found->tutti, .comm = found->comm, .tag = found->tag});
  return true;
}

bool Requests::free_persistent(MPI_Request *request, int *status) {
  std::unique_ptr<Persistent> found;
  {
    const std::lock_guard lock(mutex_);
    const auto at = persistent_.find(*request);
    if (at == persistent_.end()) return false;
    found = std::move(at->second);
    persistent_.erase(at);
  }
  finish_all([&](std::size_t i) { return requests_[i] == found->request; });
  tutti_request_free(&found->request);
  *status = own().Request_free(request);
  return true;
}

void Requests::fail(MPI_Comm comm, int code) {
  failures_.push_back({comm, code});
  failed_.fetch_add(1, std::memory_order_relaxed);
}

// Completes the MPI's request. Under the mutex.
void Requests::conclude(const Started &started, tutti_result result) {
  if (result != TUTTI_SUCCESS) {
    fail(started.comm, error_code(result));
  } else if (const int status = started.operation->unpack(); status != MPI_SUCCESS) {
    fail(started.comm, status);
  }
  if (started.tag < 0) PMPI_Grequest_complete(started.handle);
  else own().Send(nullptr, 0, MPI_BYTE, 0, started.tag, state().self);
}

void Requests::poll() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || requests_.empty()) return;
  const Inside inside;
  std::size_t done = 0;
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  tutti_test_some(requests_.size(), requests_.data(), &done, indices_.data(), statuses_.data());
  for (std::size_t i = 0; i < done; ++i) conclude(started_[static_cast<std::size_t>(indices_[i])], statuses_[i].result);
  std::sort(indices_.begin(), indices_.begin() + static_cast<std::ptrdiff_t>(done), std::greater<>());
  for (std::size_t i = 0; i < done; ++i) remove(static_cast<std::size_t>(indices_[i]));
}

template <class Which>
void Requests::finish_all(Which which) {
  const Inside inside;
  for (Pause pause;; pause()) {
    if (state().threads) poll();
    const std::unique_lock lock(mutex_);
    bool left = false;
    for (std::size_t i = requests_.size(); i-- != 0;) {
      if (!which(i)) continue;
      left = true;
      if (state().threads) break;  // another thread may poll it: who holds the mutex does not wait
      tutti_status status{};
      tutti_request *waiting = requests_[i];
      tutti_wait(&waiting, &status);
      conclude(started_[i], status.result);
      remove(i);
    }
    if (!left || !state().threads) return;
  }
}

void Requests::finish(MPI_Request request) {
  if (state().threads || request == MPI_REQUEST_NULL) return;
  int tag = -1;
  if (const auto at = persistent_.find(request); at != persistent_.end()) tag = at->second->tag;
  finish_all([&](std::size_t i) { return tag < 0 ? started_[i].handle == request : started_[i].tag == tag; });
}

void Requests::finish(const Communicator &communicator) {
  if (any()) finish_all([&](std::size_t i) { return started_[i].tutti == communicator.tutti; });
}

int Requests::settle(int status) {
  if (failed_.load(std::memory_order_relaxed) == 0) return status;
  Failure first{};
  {
    const std::lock_guard lock(mutex_);
    if (failures_.empty()) return status;
    first = failures_.front();
    failures_.erase(failures_.begin());
    failed_.fetch_sub(1, std::memory_order_relaxed);
  }
  return raise_mpi(first.comm, first.code);
}

void Pause::operator()() {
  ++count_;
  if (count_ < 64) return;
  if (count_ < 2000) sched_yield();
  else std::this_thread::sleep_for(std::chrono::microseconds(50));
}

namespace {

// Moves Tutti while `wanted` calls block elsewhere. It makes no call of MPI's: those belong to the program's threads.
class Helper {
 public:
  void engage() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(started_, true)) std::thread([this] { serve(); }).detach();
    ++wanted_;
    wake_.notify_one();
  }
  void release() {
    const std::lock_guard lock(mutex_);  // so that it is outside of Tutti
    --wanted_;
  }

 private:
  [[noreturn]] void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (wanted_ == 0) {
        wake_.wait(lock);
        continue;
      }
      std::int32_t found = 0;
      tutti_iprobe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, state().world, &found, nullptr);
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool started_ = false;
  int wanted_ = 0;
};

Helper &helper() {
  static Helper &one = *new Helper;  // as state(): its thread waits until the process is gone
  return one;
}

}  // namespace

Accompanied::Accompanied() : engaged_(!nothing_of_tutti()) {
  if (engaged_) helper().engage();
}

Accompanied::~Accompanied() {
  if (engaged_) helper().release();
}

}  // namespace tutti::mpi

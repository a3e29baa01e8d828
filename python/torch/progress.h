// SPDX-License-Identifier: BSD-3-Clause
//
// What a process group has under way, and the thread that completes it. A call is started by the thread that makes it,
// in program order; if it is small and ends within microseconds, nobody else hears of it. Otherwise one thread a group
// waits for all that is under way, asleep where nothing comes; who waits for an operation that it has not taken up yet
// polls for that one itself, for a while. Nothing here knows of torch.
//
// That thread also waits for a message from this rank to itself, on a communicator of one rank: the bell, which tells
// it of operations that have come since.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "world.h"

namespace tutti_torch {

// An operation under way. `ended` is called once, by any thread, when its buffers are the caller's again.
class Operation {
 public:
  virtual ~Operation() = default;
  // error is null for success.
  virtual void ended(const tutti_status &status, const Error *error) noexcept = 0;
  // "allreduce of 4 x float", for errors.
  virtual std::string describe() const = 0;
};

class Progress {
 public:
  // comm: one of the world, and freed with it. Collective: the bell is made.
  Progress(std::shared_ptr<World> world, tutti_comm *comm);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  using Start = std::function<tutti_result(tutti_comm *comm, tutti_request **request)>;
  // Starts it. brief: it may end so soon that waiting a moment here is cheaper than telling the thread.
  void submit(std::shared_ptr<Operation> operation, const Start &start, bool brief);

  // Polls for this operation, which the caller is about to wait for, unless the thread has it; a few milliseconds.
  void help(const Operation &operation);

  // Ends what is under way with an error, and the thread; later submissions are errors that say `why`. Idempotent.
  void stop(const std::string &why);
  // Until nothing is under way, or for so long.
  void drain(std::chrono::milliseconds limit);

  // The communicator of those who live (tutti_comm_shrink).
  tutti_comm *shrink();
  std::vector<std::int32_t> failed_ranks() const;
  // Once stopped: it may end.
  void release_world() { world_.reset(); }

 private:
  struct Active {
    std::shared_ptr<Operation> operation;
    tutti_request *request;
  };
  void run();
  // Waits for what is active, and ends what is done.
  void wait_for_some(std::vector<Active> &active);
  // Polls until it has ended or the time is over; for long, the core is given away in between.
  bool poll_for(Active &one, std::chrono::microseconds limit);
  void over(std::size_t count);
  void hand_over(Active one);
  void ring();

  std::shared_ptr<World> world_;
  tutti_comm *comm_;
  tutti_comm *bell_ = nullptr;
  std::mutex starts_;  // one at a time: the order is that of the calls
  std::mutex mutex_;   // of what follows
  std::condition_variable come_, idled_;
  std::vector<Active> incoming_;
  std::size_t under_way_ = 0;  // but what submit itself waits for
  std::size_t helpers_ = 0;
  bool waiting_ = false;  // the thread is in the library, and has to be rung for
  std::atomic<bool> stopped_{false};
  std::string why_stopped_;
  tutti_request *bell_request_ = nullptr;  // the thread's
  std::thread thread_;                     // from the first operation on that needs it
};

}  // namespace tutti_torch

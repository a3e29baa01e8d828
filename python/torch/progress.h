// SPDX-License-Identifier: BSD-3-Clause
//
// What a process group has under way, and who completes it. A call is started by the thread that makes it, in program
// order; if it is small and ends within microseconds, nobody else hears of it. Otherwise it is open, and two may take
// it up: who waits for it, polling, and one thread a group, which then waits in the library for all that it has taken,
// asleep where nothing comes. Nothing here knows of torch.
//
// To wake the thread and to be woken by it costs more than a call of some hundred KiB should, so it is woken for what
// the program will hardly wait for at once: where it did not wait for the last one, has another one open, or asks for
// a future. Otherwise the thread looks every millisecond for what has been left open, while there are calls, and sleeps
// after that. What it has not taken still moves whenever anybody is in the library.
//
// In the library the thread also waits for a message from this rank to itself, on a communicator of one rank: the bell,
// which tells it of operations to take up. No wake-up is lost: all that is looked at before a sleep is changed under
// the mutex, and from before the thread enters the library until it is out again, the bell is rung.
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
  // Starts it. brief: it may end so soon that it is worth a moment to wait for that here.
  void submit(std::shared_ptr<Operation> operation, const Start &start, bool brief);

  // The caller is about to wait for this operation: takes it up, unless somebody has it, and polls for a moment, at
  // most for `limit`; then the thread has it. at_once: right after its call.
  void help(const Operation &operation, bool at_once, std::chrono::microseconds limit);
  // Somebody wants to hear of its end without waiting here: the thread takes it up.
  void attend(const Operation &operation);

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
  // Until there is something for the thread to take up, or it is to stop.
  void look_out(std::unique_lock<std::mutex> &lock);
  // Waits for what is active, and ends what is done.
  void wait_for_some(std::vector<Active> &active);
  // Polls until it has ended or the time is over; after some, the core is given away every so many.
  bool poll_for(Active &one, std::chrono::microseconds limit, int yield_every);
  void over(std::size_t count);
  std::vector<Active>::iterator find(const Operation &operation);
  // The thread takes up what is open, if anything is, now.
  void hurry();
  void ring();

  std::shared_ptr<World> world_;
  tutti_comm *comm_;
  tutti_comm *bell_ = nullptr;
  std::mutex starts_;  // one at a time: the order is that of the calls
  std::mutex mutex_;   // of what follows
  std::condition_variable come_, idled_;
  std::vector<Active> open_;   // taken up by nobody
  std::size_t under_way_ = 0;  // but what submit itself waits for
  std::size_t helpers_ = 0;
  std::uint64_t opened_ = 0;  // how many ever were open
  bool waits_ = true;         // the program has waited for the last one at once, and so will for the next
  bool hurried_ = false;      // the thread has been told to take up what is open, and something is
  bool asleep_ = false;       // it does not look by itself
  bool waiting_ = false;      // it is in the library, and has to be rung for
  std::atomic<bool> stopped_{false};
  std::string why_stopped_;
  tutti_request *bell_request_ = nullptr;  // the thread's
  std::thread thread_;                     // from the first operation on that needs it
};

}  // namespace tutti_torch

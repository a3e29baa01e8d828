// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives of Tutti that are under way, as requests of MPI's own. A nonblocking one is a generalized request, which
// is completed when Tutti's is; so all functions of MPI that wait or test take it, mixed with others. A persistent one
// is a persistent receive of nothing from this process, to which the message is sent when Tutti's is done. Neither MPI
// knows that Tutti has to be moved for that: while there are any, functions that wait (waits.cc, messages.cc) poll both
// sides, and what else waits is accompanied by a helper thread (Accompanied).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "operation.h"

namespace tutti::mpi {

class Requests {
 public:
  // Starts the operation, and makes *request. What the MPI function returns.
  int start(const Communicator &communicator, std::unique_ptr<Operation> operation, MPI_Comm comm,
            MPI_Request *request);
  // Makes an inactive persistent one.
  int create(const Communicator &communicator, std::unique_ptr<Operation> operation, MPI_Comm comm,
             MPI_Request *request);
  // Of a persistent request made here; false if it was not.
  bool start_persistent(MPI_Request *request, int *status);
  bool free_persistent(MPI_Request *request, int *status);

  bool any() const { return active_.load(std::memory_order_relaxed) != 0; }
  bool any_persistent();
  // Lets Tutti go on, and completes what is done.
  void poll();
  // Until this one is done, if it is one of Tutti's and one thread calls; sleeps as Tutti does.
  void finish(MPI_Request request);
  // All of a communicator that is to be freed.
  void finish(const Communicator &communicator);
  // Hands a failure that was found by polling to its communicator's error handler, and returns it; else `status`.
  int settle(int status);

 private:
  struct Persistent;
  struct Started {
    std::shared_ptr<Operation> operation;
    tutti_comm *tutti = nullptr;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request handle = MPI_REQUEST_NULL;  // the generalized one
    int tag = -1;                           // or that of the message that completes a persistent one
  };
  struct Failure {
    MPI_Comm comm;
    int code;
  };
  void add(tutti_request *request, Started started);
  void remove(std::size_t index);
  void conclude(const Started &started, tutti_result result);
  void fail(MPI_Comm comm, int code);
  template <class Which>
  void finish_all(Which which);

  std::mutex mutex_;
  std::atomic<int> active_{0};
  std::vector<tutti_request *> requests_;  // as tutti_test_some takes them; started_ likewise
  std::vector<Started> started_;
  std::vector<std::int32_t> indices_;
  std::vector<tutti_status> statuses_;
  std::atomic<int> failed_{0};
  std::vector<Failure> failures_;
  std::unordered_map<MPI_Request, std::unique_ptr<Persistent>> persistent_;
  int next_tag_ = 1;
};

Requests &requests();

// Whether a call that waits is the MPI's alone.
bool nothing_of_tutti();

// The pauses of who polls both sides: short at first, then it gives its core away, then it sleeps.
class Pause {
 public:
  void operator()();

 private:
  int count_ = 0;
};

// While it lives, a helper thread moves Tutti, if anything is under way: around calls that block in the MPI library.
class Accompanied {
 public:
  Accompanied();
  ~Accompanied();
  Accompanied(const Accompanied &) = delete;
  Accompanied &operator=(const Accompanied &) = delete;

 private:
  bool engaged_ = false;
};

}  // namespace tutti::mpi

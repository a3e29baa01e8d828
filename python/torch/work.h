// SPDX-License-Identifier: BSD-3-Clause
//
// The Work that a call gives: what its operation ends with, as torch's callers see it (wait, exception, result,
// future).
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "progress.h"

namespace tutti_torch {

class Work final : public c10d::Work, public Operation {
  using Clock = std::chrono::steady_clock;

 public:
  struct Parts {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char *title = nullptr;       // for profilers and errors: "tutti:all_reduce"
    int peer = -1;                     // of a message
    std::vector<at::Tensor> inputs;    // for profilers
    std::vector<at::Tensor> outputs;   // the result
    std::vector<at::Tensor> buffers;   // what the operation works on, if that is other memory
    std::function<void()> afterwards;  // brings what is in buffers to the outputs
    bool receives = false;             // then the message has to have so many bytes
    std::uint64_t bytes = 0;
    std::chrono::milliseconds timeout{0};  // of this call alone; 0: none
  };
  Work(int rank, Parts parts, std::weak_ptr<Progress> progress);

  // Throws what the operation ended with, or when the time is over, or (in Python's main thread) Ctrl-C.
  bool wait(std::chrono::milliseconds timeout) override;
  bool isCompleted() override;
  std::vector<at::Tensor> result() override { return parts_.outputs; }
  int sourceRank() const override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

  // Once its call is about to return.
  void started() { started_ = Clock::now(); }

  void ended(const tutti_status &status, const Error *error) noexcept override;
  // "all_reduce of 4 x Float on rank 1"
  std::string describe() const override;

 private:
  void complete(c10::ivalue::Future &future) const;

  Parts parts_;
  const std::weak_ptr<Progress> progress_;
  int source_ = -1;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool future_told_ = false;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point started_ = began_;
};

}  // namespace tutti_torch

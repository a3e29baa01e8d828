// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/ATen.h>
#include <torch/custom_class.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

constexpr std::chrono::milliseconds kNoTimeout{0};

namespace c10d {

enum class OpType : std::uint8_t {
  BROADCAST,
  ALLREDUCE,
  ALLREDUCE_COALESCED,
  REDUCE,
  ALLGATHER,
  _ALLGATHER_BASE,
  ALLGATHER_COALESCED,
  GATHER,
  SCATTER,
  REDUCE_SCATTER,
  ALLTOALL_BASE,
  ALLTOALL,
  SEND,
  RECV,
  RECVANYSOURCE,
  BARRIER,
  _REDUCE_SCATTER_BASE,
  UNKNOWN = 100,
};

class Work : public torch::CustomClassHolder {
 public:
  Work(int rank = -1, OpType type = OpType::UNKNOWN, const char *profiling_title = nullptr,
       const c10::optional<std::vector<at::Tensor>> &inputs = c10::nullopt);
  ~Work() override;
  virtual bool isCompleted();
  virtual bool isSuccess() const;
  virtual std::exception_ptr exception() const;
  virtual int sourceRank() const;
  virtual std::vector<at::Tensor> result();
  virtual void synchronize();
  virtual bool wait(std::chrono::milliseconds timeout = kNoTimeout);
  virtual void abort();
  virtual c10::intrusive_ptr<c10::ivalue::Future> getFuture();
  virtual c10::intrusive_ptr<c10::ivalue::Future> getFutureResult();

 protected:
  void finish(std::exception_ptr exception = nullptr);
  mutable std::mutex mutex_;
  std::condition_variable cv_;
  bool completed_ = false;
  std::exception_ptr exception_;
  const int rank_;
  OpType opType_;
};

}  // namespace c10d

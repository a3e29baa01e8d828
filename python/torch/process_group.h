// SPDX-License-Identifier: BSD-3-Clause
//
// The process group "tutti" for torch.distributed: checks tensors, brings them into the form that the C interface
// takes, and starts its calls. One communicator a group, which ranks make through torch's own Store.
//
// Tensors are dense and on the CPU. What is not contiguous is copied before and after. Calls of one group are made in
// the same order on all ranks, by one thread at a time or by several that agree on the order, as with every backend.
#pragma once

#include <torch/version.h>

#include <torch/csrc/distributed/c10d/Store.hpp>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "progress.h"
#include "work.h"

namespace tutti_torch {

// What backends derive from: since torch 2.0 a process group has backends.
#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif

class ProcessGroupTutti final : public Base {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<std::vector<at::Tensor>>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // Collective over the ranks that share the store. timeout: of bring-up and of operations.
  static c10::intrusive_ptr<ProcessGroupTutti> create(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                                                      std::chrono::milliseconds timeout);
  ~ProcessGroupTutti() override;

  const std::string getBackendName() const override { return "tutti"; }

  WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
  WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
  WorkPtr allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override;
  WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
  WorkPtr allgather(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
  WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) override;
  WorkPtr allgather_coalesced(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
  // Since 2.1. What older versions have not is without `override`.
  WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs, const c10d::AllgatherOptions &options);
  WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs, const c10d::ReduceScatterOptions &options);
  WorkPtr gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &options) override;
  WorkPtr scatter(Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &options) override;
  WorkPtr reduce_scatter(Tensors &outputs, Lists &inputs, const c10d::ReduceScatterOptions &options) override;
  WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                               const c10d::ReduceScatterOptions &options) override;
  WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_sizes,
                        std::vector<int64_t> &input_sizes, const c10d::AllToAllOptions &options) override;
  WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override;
  WorkPtr send(Tensors &tensors, int to, int tag) override;
  WorkPtr recv(Tensors &tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors &tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions &options) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return collectives_; }

  // After a death: the group of those who live, who all call it. This one is of no use any more.
  c10::intrusive_ptr<ProcessGroupTutti> shrink();
  // Ranks of this group that are known here to be dead.
  std::vector<std::int32_t> failed_ranks() const { return progress_->failed_ranks(); }
  // End what is under way with an error, and the thread. Idempotent. Since 2.7 torch calls them: without `override`.
  void shutdown() { end("the process group has been shut down"); }
  void abort() { end("the process group has been aborted"); }
  // All groups of this process, before it ends: those who are not met within the limit are left.
  static void shutdown_all(std::chrono::milliseconds limit);

 private:
  struct Job;
  ProcessGroupTutti(std::shared_ptr<World> world, tutti_comm *comm, int rank, int size,
                    std::chrono::milliseconds timeout);
  void end(const std::string &why);
  WorkPtr start(Job job);
  WorkPtr message(Tensors &tensors, int peer, int tag, c10d::OpType type, const char *title);

  const std::chrono::milliseconds timeout_;
  std::shared_ptr<World> world_;
  std::shared_ptr<Progress> progress_;
  std::atomic<std::uint64_t> collectives_{0};
  const int process_;  // a forked child has copies that it must not touch
};

}  // namespace tutti_torch

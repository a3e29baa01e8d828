// SPDX-License-Identifier: BSD-3-Clause
//
// All that the process group has to override is pure here, so that it is no class of which there are objects unless it
// does; and -Woverloaded-virtual is an error. (In torch, what is not overridden throws, or does nothing.)
#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace c10d {

class Backend : public torch::CustomClassHolder {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;
  using Sizes = std::vector<std::int64_t>;
  using WorkPtr = c10::intrusive_ptr<Work>;

  explicit Backend(int rank, int size);
  ~Backend() override = 0;
  int getRank() const { return rank_; }
  int getSize() const { return size_; }

  virtual const std::string getBackendName() const = 0;
  virtual WorkPtr broadcast(Tensors &, const BroadcastOptions & = {}) = 0;
  virtual WorkPtr allreduce(Tensors &, const AllreduceOptions & = {}) = 0;
  virtual WorkPtr allreduce_coalesced(Tensors &, const AllreduceCoalescedOptions & = {}) = 0;
  virtual WorkPtr reduce(Tensors &, const ReduceOptions & = {}) = 0;
  virtual WorkPtr allgather(Lists &, Tensors &, const AllgatherOptions & = {}) = 0;
  virtual WorkPtr _allgather_base(at::Tensor &, at::Tensor &, const AllgatherOptions & = {}) = 0;
  virtual WorkPtr allgather_coalesced(Lists &, Tensors &, const AllgatherOptions & = {}) = 0;
  virtual WorkPtr allgather_into_tensor_coalesced(Tensors &, Tensors &, const AllgatherOptions & = {}) = 0;
  virtual WorkPtr gather(Lists &, Tensors &, const GatherOptions & = {}) = 0;
  virtual WorkPtr scatter(Tensors &, Lists &, const ScatterOptions & = {}) = 0;
  virtual WorkPtr reduce_scatter(Tensors &, Lists &, const ReduceScatterOptions & = {}) = 0;
  virtual WorkPtr _reduce_scatter_base(at::Tensor &, at::Tensor &, const ReduceScatterOptions & = {}) = 0;
  virtual WorkPtr reduce_scatter_tensor_coalesced(Tensors &, Tensors &, const ReduceScatterOptions & = {}) = 0;
  virtual WorkPtr alltoall_base(at::Tensor &, at::Tensor &, Sizes &, Sizes &, const AllToAllOptions & = {}) = 0;
  virtual WorkPtr alltoall(Tensors &, Tensors &, const AllToAllOptions & = {}) = 0;
  virtual void setSequenceNumberForGroup() = 0;
  virtual std::uint64_t getSequenceNumberForGroup() = 0;
  virtual WorkPtr send(Tensors &, int to, int tag) = 0;
  virtual WorkPtr recv(Tensors &, int from, int tag) = 0;
  virtual WorkPtr recvAnysource(Tensors &, int tag) = 0;
  virtual WorkPtr barrier(const BarrierOptions & = {}) = 0;
  virtual void abort() = 0;     // since 2.7
  virtual void shutdown() = 0;  // since 2.7

 protected:
  const int rank_;
  const int size_;
};

}  // namespace c10d

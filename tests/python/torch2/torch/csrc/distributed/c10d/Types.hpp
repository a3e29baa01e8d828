// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace c10d {

struct _SupplementBase : torch::CustomClassHolder {};
struct NCCLPreMulSumSupplement : _SupplementBase {
  double double_factor = 0;
  at::Tensor tensor_factor;  // 1.13 has a list
};

struct ReduceOp : torch::CustomClassHolder {
  enum RedOpType : std::uint8_t { SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED };
  ReduceOp() = default;
  ReduceOp(RedOpType op) : op_(op) {}
  ReduceOp(const ReduceOp &) = default;
  ReduceOp &operator=(const ReduceOp &) = default;
  operator RedOpType() const { return op_; }
  RedOpType op_ = SUM;
  c10::intrusive_ptr<_SupplementBase> supplement_;
};

constexpr std::chrono::milliseconds kUnsetTimeout{-1};

struct AllgatherOptions {
  std::chrono::milliseconds timeout = kUnsetTimeout;
  bool asyncOp = true;  // in all of them since 2.7
};
struct AllToAllOptions : AllgatherOptions {};
struct BarrierOptions : AllgatherOptions {
  std::vector<std::int64_t> device_ids;
};
struct GatherOptions : AllgatherOptions {
  std::int64_t rootRank = 0;
};
struct ScatterOptions : GatherOptions {};
struct BroadcastOptions : GatherOptions {
  std::int64_t rootTensor = 0;
};
struct ReduceScatterOptions : AllgatherOptions {
  ReduceOp reduceOp;
};
struct AllreduceOptions : ReduceScatterOptions {};
struct AllreduceCoalescedOptions : AllreduceOptions {};
struct ReduceOptions : BroadcastOptions {
  ReduceOp reduceOp;
};

}  // namespace c10d

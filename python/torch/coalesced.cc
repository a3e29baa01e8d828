// SPDX-License-Identifier: BSD-3-Clause
//
// The calls of the process group that take several tensors: one call of the library for all of them, out of and into
// memory in which they lie one after the other.
#include "job.h"

namespace tutti_torch {

using c10d::OpType;

namespace {

// Each of the large ones is what all ranks have of the small one.
void check_pairs(const char *call, const std::vector<at::Tensor> &large, const std::vector<at::Tensor> &small,
                 int ranks) {
  TORCH_CHECK(!small.empty() && large.size() == small.size(), call, ": ", large.size(), " and ", small.size(),
              " tensors, which should be as many, and some");
  check_tensors(call, large);
  check_tensors(call, small);
  check_same_type(call, large[0], small[0]);
  for (std::size_t i = 0; i < small.size(); ++i)
    TORCH_CHECK(large[i].numel() == small[i].numel() * ranks, call, ": tensor ", i, " has ", large[i].numel(),
                " elements, and not ", small[i].numel(), " for each of ", ranks, " ranks");
}

}  // namespace

ProcessGroupTutti::WorkPtr ProcessGroupTutti::allreduce_coalesced(Tensors &tensors,
                                                                  const c10d::AllreduceCoalescedOptions &options) {
  Job job(OpType::ALLREDUCE_COALESCED, "tutti:all_reduce_coalesced", TUTTI_ALLREDUCE, options.timeout);
  TORCH_CHECK(!tensors.empty(), job.name(), ": the list of tensors is empty");
  check_tensors(job.name(), tensors);
  job.parts.inputs = job.parts.outputs = tensors;
  const at::Tensor flat = joined(tensors);
  job.writes(flat, true);
  job.parts.afterwards = [flat, tensors] { spread(flat, tensors); };
  job.call.in = TUTTI_IN_PLACE;
  job.call.count = count_of(flat);
  job.call.op = op_of(job.name(), options.reduceOp, flat);
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::allgather_coalesced(Lists &outputs, Tensors &inputs,
                                                                  const c10d::AllgatherOptions &options) {
  Job job(OpType::ALLGATHER_COALESCED, "tutti:all_gather_coalesced", TUTTI_ALLGATHER, options.timeout);
  TORCH_CHECK(!inputs.empty(), job.name(), ": the list of tensors is empty");
  TORCH_CHECK(outputs.size() == static_cast<std::size_t>(getSize()), job.name(), ": the output has ", outputs.size(),
              " lists, for ", getSize(), " ranks");
  check_tensors(job.name(), inputs);
  Tensors all;
  for (const Tensors &of_rank : outputs) {
    TORCH_CHECK(of_rank.size() == inputs.size(), job.name(), ": an output has ", of_rank.size(), " tensors, the input ",
                inputs.size());
    check_tensors(job.name(), of_rank);
    check_same_type(job.name(), of_rank[0], inputs[0]);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      check_counts(job.name(), "tensor", {of_rank[i]}, count_of(inputs[i]));
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  job.parts.inputs = inputs;
  job.parts.outputs = all;
  const at::Tensor flat = joined(inputs);
  job.reads(flat);
  job.writes_all(all);
  job.call.count = count_of(flat);
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                                              const c10d::AllgatherOptions &options) {
  Job job(OpType::ALLGATHER_COALESCED, "tutti:all_gather_into_tensor_coalesced", TUTTI_ALLGATHER, options.timeout);
  const int ranks = getSize();
  check_pairs(job.name(), outputs, inputs, ranks);
  job.parts.inputs = inputs;
  job.parts.outputs = outputs;
  const at::Tensor flat = joined(inputs);
  job.reads(flat);
  job.call.count = count_of(flat);
  // A row is what one rank has of all tensors.
  const at::Tensor rows = at::empty({ranks, flat.numel()}, flat.options());
  job.writes(rows);
  job.parts.afterwards = [rows, outputs, ranks] {
    const at::NoGradGuard no_grad;
    std::int64_t at = 0;
    for (const at::Tensor &output : outputs) {
      const std::int64_t count = output.numel() / ranks;
      output.copy_(rows.narrow(1, at, count).reshape(output.sizes()));
      at += count;
    }
  };
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::reduce_scatter_tensor_coalesced(
    Tensors &outputs, Tensors &inputs, const c10d::ReduceScatterOptions &options) {
  Job job(OpType::REDUCE_SCATTER, "tutti:reduce_scatter_tensor_coalesced", TUTTI_REDUCE_SCATTER_BLOCK, options.timeout);
  const int ranks = getSize();
  check_pairs(job.name(), inputs, outputs, ranks);
  job.parts.inputs = inputs;
  job.parts.outputs = outputs;
  std::int64_t each = 0;
  for (const at::Tensor &output : outputs) each += output.numel();
  // A row is what one rank gets of all tensors.
  const at::Tensor rows = at::empty({ranks, each}, outputs[0].options());
  {
    const at::NoGradGuard no_grad;
    std::int64_t at = 0;
    for (const at::Tensor &input : inputs) {
      const std::int64_t count = input.numel() / ranks;
      rows.narrow(1, at, count).copy_(input.reshape({ranks, count}));
      at += count;
    }
  }
  job.reads(rows);
  job.writes_all(outputs);
  job.call.count = static_cast<std::size_t>(each);
  job.call.op = op_of(job.name(), options.reduceOp, rows);
  return start(std::move(job));
}

}  // namespace tutti_torch

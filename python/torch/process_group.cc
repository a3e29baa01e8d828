// SPDX-License-Identifier: BSD-3-Clause
#include "process_group.h"

#include <torch/csrc/utils/pybind.h>

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "job.h"
#include "store_meeting.h"
#include "tensors.h"

namespace tutti_torch {
namespace {

using c10d::OpType;
using Tensors = std::vector<at::Tensor>;

// Up to here an operation among ranks in step ends about as soon as a thread could be woken for it.
constexpr std::size_t kBriefBytes = 64 * 1024;
// How long a failed group's operations may take to end, before survivors agree.
constexpr std::chrono::milliseconds kDrain{2000};

// Groups of this process that live. Never destroyed: used while the process ends.
struct Groups {
  std::mutex mutex;
  std::set<ProcessGroupTutti *> all;
};
Groups &groups() {
  static auto *groups = new Groups;
  return *groups;
}

// The one list of a call that has a tensor for each rank.
const Tensors &one_for_each(const char *call, const char *what, const std::vector<Tensors> &lists, int ranks) {
  TORCH_CHECK(lists.size() == 1 && lists[0].size() == static_cast<std::size_t>(ranks), call, ": the ", what,
              " has to be one list of ", ranks, " tensors, one for each rank");
  check_tensors(call, lists[0]);
  return lists[0];
}

bool all_of_size(const Tensors &tensors, std::size_t count) {
  return std::all_of(tensors.begin(), tensors.end(), [count](const at::Tensor &t) { return count_of(t) == count; });
}

// The parts of one side of an all-to-all into one tensor, in elements.
std::vector<std::size_t> split(const char *call, const char *what, const at::Tensor &tensor,
                               const std::vector<std::int64_t> &sizes, int ranks) {
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const std::int64_t row = rows == 0 ? 0 : tensor.numel() / rows;
  std::vector<std::size_t> counts;
  if (sizes.empty()) {
    TORCH_CHECK(rows % ranks == 0, call, ": the ", what, " has ", rows, " rows, no multiple of the ", ranks,
                " ranks: give split sizes");
    counts.assign(static_cast<std::size_t>(ranks), static_cast<std::size_t>(rows / ranks * row));
    return counts;
  }
  TORCH_CHECK(sizes.size() == static_cast<std::size_t>(ranks), call, ": the ", what, " has ", sizes.size(),
              " split sizes, for ", ranks, " ranks");
  TORCH_CHECK(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == rows &&
                  std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size >= 0; }),
              call, ": the split sizes of the ", what, " are not those of its ", rows, " rows");
  for (const std::int64_t size : sizes) counts.push_back(static_cast<std::size_t>(size * row));
  return counts;
}

}  // namespace

ProcessGroupTutti::ProcessGroupTutti(std::shared_ptr<World> world, tutti_comm *comm, int rank, int size,
                                     std::chrono::milliseconds timeout)
    : Base(rank, size),
      timeout_(timeout),
      world_(std::move(world)),
      progress_(std::make_shared<Progress>(world_, comm)),
      process_(::getpid()) {
#if TORCH_VERSION_MAJOR < 2
  init();
#endif
  Groups &all = groups();
  const std::scoped_lock lock(all.mutex);
  all.all.insert(this);
}

c10::intrusive_ptr<ProcessGroupTutti> ProcessGroupTutti::create(const c10::intrusive_ptr<c10d::Store> &store, int rank,
                                                                int size, std::chrono::milliseconds timeout) {
  TORCH_CHECK(size >= 1 && rank >= 0 && rank < size, "rank ", rank, " of ", size, " ranks is no rank");
  StoreMeeting meeting(store, rank, size, timeout);
  auto world = std::make_shared<World>(rank, size, std::ref(meeting), timeout);
  tutti_comm *comm = world->comm();
  return c10::intrusive_ptr<ProcessGroupTutti>::unsafe_steal_from_new(
      new ProcessGroupTutti(std::move(world), comm, rank, size, timeout));
}

ProcessGroupTutti::~ProcessGroupTutti() {
  {
    Groups &all = groups();
    const std::scoped_lock lock(all.mutex);
    all.all.erase(this);
  }
  if (process_ == ::getpid()) {
    end("the process group has been destroyed");
    return;
  }
  // In a forked child: the thread and the connections are the parent's, and what is here of them is left alone.
  static_cast<void>(
      new std::shared_ptr<Progress>(std::move(progress_)));          // NOLINT: of a child without memory nothing is
  static_cast<void>(new std::shared_ptr<World>(std::move(world_)));  // NOLINT  left to save
}

void ProcessGroupTutti::end(const std::string &why) {
  // Its thread may need the interpreter to let go of a tensor, and is waited for; who destroys a group may hold it.
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    const pybind11::gil_scoped_release release;
    progress_->stop(why);
  } else {
    progress_->stop(why);
  }
}

void ProcessGroupTutti::shutdown_all(std::chrono::milliseconds limit) {
  std::vector<std::shared_ptr<World>> worlds;
  {
    Groups &all = groups();
    const std::scoped_lock lock(all.mutex);
    for (ProcessGroupTutti *group : all.all) {
      if (group->process_ != ::getpid()) continue;
      group->end("the process ends");
      group->progress_->release_world();
      group->world_.reset();
    }
  }
  leave(limit);
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::start(Job job) {
  const bool brief = job.bytes <= kBriefBytes;
  job.call.in_counts = job.in_counts.empty() ? nullptr : job.in_counts.data();
  job.call.out_counts = job.out_counts.empty() ? nullptr : job.out_counts.data();
  const OpType type = job.parts.type;
  auto work = c10::make_intrusive<Work>(getRank(), std::move(job.parts), progress_);
  // Both kinds of counting keep one object.
  std::shared_ptr<Operation> operation(work.get(), [work](Operation *) {});
  const auto begin = [&](tutti_comm *comm, tutti_request **request) -> tutti_result {
    const tutti_call &call = job.call;
    switch (type) {
      case OpType::SEND: return tutti_isend(call.in, call.count, call.type, job.peer, job.tag, comm, request);
      case OpType::RECV:
      case OpType::RECVANYSOURCE: return tutti_irecv(call.out, call.count, call.type, job.peer, job.tag, comm, request);
      default: return tutti_start_call(&call, comm, request);
    }
  };
  if (type != OpType::SEND && type != OpType::RECV && type != OpType::RECVANYSOURCE) ++collectives_;
  progress_->submit(std::move(operation), std::ref(begin), brief);
  work->started();
  free_op(job.call.op);
  return work;
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
  Job job(OpType::BROADCAST, "tutti:broadcast", TUTTI_BROADCAST, options.timeout);
  const at::Tensor &tensor = only(job.name(), "the list", tensors);
  job.parts.inputs = job.parts.outputs = tensors;
  job.writes(tensor, true);
  job.call.count = count_of(tensor);
  job.call.root = static_cast<std::int32_t>(options.rootRank);
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
  Job job(OpType::ALLREDUCE, "tutti:all_reduce", TUTTI_ALLREDUCE, options.timeout);
  const at::Tensor &tensor = only(job.name(), "the list", tensors);
  job.parts.inputs = job.parts.outputs = tensors;
  job.writes(tensor, true);
  job.call.in = TUTTI_IN_PLACE;
  job.call.count = count_of(tensor);
  job.call.op = op_of(job.name(), options.reduceOp, tensor);
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
  Job job(OpType::REDUCE, "tutti:reduce", TUTTI_REDUCE, options.timeout);
  const at::Tensor &tensor = only(job.name(), "the list", tensors);
  job.parts.inputs = job.parts.outputs = tensors;
  job.call.root = static_cast<std::int32_t>(options.rootRank);
  if (options.rootRank == getRank()) {
    job.writes(tensor, true);
    job.call.in = TUTTI_IN_PLACE;
  } else {
    job.reads(tensor);
  }
  job.call.count = count_of(tensor);
  job.call.op = op_of(job.name(), options.reduceOp, tensor);
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::allgather(Lists &outputs, Tensors &inputs,
                                                        const c10d::AllgatherOptions &options) {
  Job job(OpType::ALLGATHER, "tutti:all_gather", TUTTI_ALLGATHER, options.timeout);
  const at::Tensor &input = only(job.name(), "the input", inputs);
  const Tensors &into = one_for_each(job.name(), "output", outputs, getSize());
  check_same_type(job.name(), input, into[0]);
  job.parts.inputs = inputs;
  job.parts.outputs = into;
  job.reads(input);
  job.writes_all(into);
  job.call.count = count_of(input);
  if (!all_of_size(into, count_of(input))) {  // sizes that differ by rank are as good
    const auto mine = static_cast<std::size_t>(getRank());
    TORCH_CHECK(count_of(into[mine]) == count_of(input), job.name(), ": the input has ", input.numel(),
                " elements, and its place in the output ", into[mine].numel());
    job.call.collective = TUTTI_ALLGATHERV;
    job.out_counts = counts_of(into);
  }
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::_allgather_base(at::Tensor &output, at::Tensor &input,
                                                              const c10d::AllgatherOptions &options) {
  Job job(OpType::_ALLGATHER_BASE, "tutti:_all_gather_base", TUTTI_ALLGATHER, options.timeout);
  check_tensors(job.name(), {output, input});
  TORCH_CHECK(output.numel() == input.numel() * getSize(), job.name(), ": the output has ", output.numel(),
              " elements, and not ", input.numel(), " for each of ", getSize(), " ranks");
  job.parts.inputs = {input};
  job.parts.outputs = {output};
  job.reads(input);
  job.writes(output);
  // FSDP gathers out of this rank's part of the output itself.
  if (job.call.in == static_cast<char *>(job.call.out) + bytes_of(input) * static_cast<std::size_t>(getRank()))
    job.call.in = TUTTI_IN_PLACE;
  job.call.count = count_of(input);
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::gather(Lists &outputs, Tensors &inputs,
                                                     const c10d::GatherOptions &options) {
  Job job(OpType::GATHER, "tutti:gather", TUTTI_GATHER, options.timeout);
  const at::Tensor &input = only(job.name(), "the input", inputs);
  job.parts.inputs = inputs;
  job.reads(input);
  job.call.count = count_of(input);
  job.call.root = static_cast<std::int32_t>(options.rootRank);
  if (options.rootRank == getRank()) {
    const Tensors &into = one_for_each(job.name(), "root's output", outputs, getSize());
    check_same_type(job.name(), input, into[0]);
    check_counts(job.name(), "output", into, count_of(input));
    job.parts.outputs = into;
    job.writes_all(into);
  } else {
    TORCH_CHECK(outputs.empty(), job.name(), ": only the root has an output");
  }
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::scatter(Tensors &outputs, Lists &inputs,
                                                      const c10d::ScatterOptions &options) {
  Job job(OpType::SCATTER, "tutti:scatter", TUTTI_SCATTER, options.timeout);
  const at::Tensor &output = only(job.name(), "the output", outputs);
  job.parts.outputs = outputs;
  job.call.root = static_cast<std::int32_t>(options.rootRank);
  job.call.count = count_of(output);
  if (options.rootRank == getRank()) {
    const Tensors &from = one_for_each(job.name(), "root's input", inputs, getSize());
    check_same_type(job.name(), output, from[0]);
    check_counts(job.name(), "input", from, count_of(output));
    job.parts.inputs = from;
    job.reads(joined(from));
  } else {
    TORCH_CHECK(inputs.empty(), job.name(), ": only the root has an input");
  }
  job.writes(output);
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::reduce_scatter(Tensors &outputs, Lists &inputs,
                                                             const c10d::ReduceScatterOptions &options) {
  Job job(OpType::REDUCE_SCATTER, "tutti:reduce_scatter", TUTTI_REDUCE_SCATTER_BLOCK, options.timeout);
  const at::Tensor &output = only(job.name(), "the output", outputs);
  const Tensors &from = one_for_each(job.name(), "input", inputs, getSize());
  check_same_type(job.name(), output, from[0]);
  const at::Tensor &mine = from[static_cast<std::size_t>(getRank())];
  TORCH_CHECK(mine.numel() == output.numel(), job.name(), ": the output has ", output.numel(),
              " elements, and this rank's input ", mine.numel());
  job.parts.inputs = from;
  job.parts.outputs = outputs;
  job.reads(joined(from));
  job.writes(output);
  job.call.count = count_of(output);
  job.call.op = op_of(job.name(), options.reduceOp, output);
  if (!all_of_size(from, count_of(output))) {
    job.call.collective = TUTTI_REDUCE_SCATTER;
    job.in_counts = counts_of(from);
  }
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                                   const c10d::ReduceScatterOptions &options) {
  Job job(OpType::_REDUCE_SCATTER_BASE, "tutti:_reduce_scatter_base", TUTTI_REDUCE_SCATTER_BLOCK, options.timeout);
  check_tensors(job.name(), {output, input});
  TORCH_CHECK(input.numel() == output.numel() * getSize(), job.name(), ": the input has ", input.numel(),
              " elements, and not ", output.numel(), " for each of ", getSize(), " ranks");
  job.parts.inputs = {input};
  job.parts.outputs = {output};
  job.reads(input);
  job.call.count = count_of(output);
  job.call.op = op_of(job.name(), options.reduceOp, output);
  const auto *begin = static_cast<const char *>(job.call.in);
  const auto *out = static_cast<const char *>(output.data_ptr());
  if (output.is_contiguous() && out >= begin && out < begin + bytes_of(input)) {
    // Into a part of the input, as FSDP does: the library wants them apart.
    const at::Tensor apart = at::empty(output.sizes(), output.options());
    job.writes(apart);
    job.parts.afterwards = [apart, output] { spread(apart.view(-1), {output}); };
  } else {
    job.writes(output);
  }
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::alltoall_base(at::Tensor &output, at::Tensor &input,
                                                            std::vector<int64_t> &output_sizes,
                                                            std::vector<int64_t> &input_sizes,
                                                            const c10d::AllToAllOptions &options) {
  Job job(OpType::ALLTOALL_BASE, "tutti:all_to_all_single", TUTTI_ALLTOALLV, options.timeout);
  check_tensors(job.name(), {output, input});
  job.parts.inputs = {input};
  job.parts.outputs = {output};
  job.in_counts = split(job.name(), "input", input, input_sizes, getSize());
  job.out_counts = split(job.name(), "output", output, output_sizes, getSize());
  job.reads(input);
  job.writes(output);
  if (input_sizes.empty() && output_sizes.empty()) {
    TORCH_CHECK(input.numel() == output.numel(), job.name(), ": the input has ", input.numel(),
                " elements, the output ", output.numel());
    job.call.collective = TUTTI_ALLTOALL;
    job.call.count = job.in_counts[0];
  }
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::alltoall(Tensors &outputs, Tensors &inputs,
                                                       const c10d::AllToAllOptions &options) {
  Job job(OpType::ALLTOALL, "tutti:all_to_all", TUTTI_ALLTOALLV, options.timeout);
  const auto ranks = static_cast<std::size_t>(getSize());
  TORCH_CHECK(outputs.size() == ranks && inputs.size() == ranks, job.name(), ": ", inputs.size(), " inputs and ",
              outputs.size(), " outputs, for ", ranks, " ranks");
  check_tensors(job.name(), inputs);
  check_tensors(job.name(), outputs);
  check_same_type(job.name(), inputs[0], outputs[0]);
  job.parts.inputs = inputs;
  job.parts.outputs = outputs;
  job.in_counts = counts_of(inputs);
  job.out_counts = counts_of(outputs);
  job.reads(joined(inputs));
  job.writes_all(outputs);
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::message(Tensors &tensors, int peer, int tag, OpType type,
                                                      const char *title) {
  Job job(type, title, 0, kNoTimeout);
  const at::Tensor &tensor = only(job.name(), "the list", tensors);
  TORCH_CHECK(tag >= 0, job.name(), ": the tag ", tag, " is negative");
  job.peer = job.parts.peer = peer;
  job.tag = tag;
  job.call.count = count_of(tensor);
  if (type == OpType::SEND) {
    job.parts.inputs = tensors;
    job.reads(tensor);
  } else {
    job.parts.outputs = tensors;
    job.parts.receives = true;
    job.parts.bytes = bytes_of(tensor);
    job.writes(tensor);
  }
  return start(std::move(job));
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::send(Tensors &tensors, int to, int tag) {
  return message(tensors, to, tag, OpType::SEND, "tutti:send");
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::recv(Tensors &tensors, int from, int tag) {
  TORCH_CHECK(from >= 0 && from < getSize(), "recv: there is no rank ", from);
  return message(tensors, from, tag, OpType::RECV, "tutti:recv");
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::recvAnysource(Tensors &tensors, int tag) {
  return message(tensors, TUTTI_ANY_SOURCE, tag, OpType::RECVANYSOURCE, "tutti:recv_any_source");
}

ProcessGroupTutti::WorkPtr ProcessGroupTutti::barrier(const c10d::BarrierOptions &options) {
  return start(Job(OpType::BARRIER, "tutti:barrier", TUTTI_BARRIER, options.timeout));
}

c10::intrusive_ptr<ProcessGroupTutti> ProcessGroupTutti::shrink() {
  progress_->drain(kDrain);
  progress_->stop("the process group has been shrunk: use the new one");
  tutti_comm *comm = progress_->shrink();
  std::int32_t rank = 0, size = 0;
  check("tutti_comm_rank", tutti_comm_rank(comm, &rank));
  check("tutti_comm_size", tutti_comm_size(comm, &size));
  return c10::intrusive_ptr<ProcessGroupTutti>::unsafe_steal_from_new(
      new ProcessGroupTutti(world_, comm, rank, size, timeout_));
}

}  // namespace tutti_torch

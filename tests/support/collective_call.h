// SPDX-License-Identifier: BSD-3-Clause
//
// A problem of the model as a call to the communicator: memory of one rank made from the model's, with the call that
// works in it, and the verdict afterwards.
#pragma once

#include <algorithm>
#include <string>

#include "comm/call.h"
#include "support/collective_model.h"

namespace tutti::test {

class ModelCall {
 public:
  // Writes a value as an element of the type.
  using Put = void (*)(std::byte *to, reduce::Type type, std::int64_t value);

  ModelCall(const Problem &problem, int rank, reduce::Type type, reduce::Op op, Put put)
      : problem_(problem),
        rank_(rank),
        bytes_(reduce::type_bytes(static_cast<std::int32_t>(type))),
        memory_(memory_of(problem, rank)),
        in_(problem.input(rank)),
        out_(problem.output(rank)) {
    input_ = elements(memory_.input, type, put);
    output_ = elements(memory_.output, type, put);
    input_after_ = elements(memory_.input_after, type, put);
    output_after_ = elements(memory_.output_after, type, put);
    type_ = type;
    op_ = op;
  }

  comm::Call call() {
    comm::Call call;
    call.shape = shape(problem_, type_, op_);
    const bool one = memory_.in_place;
    call.shape.in_place = one;
    const bool scatters = problem_.own_of_input();
    call.input = input_.data();
    call.output = output_.data();
    if (one && !scatters) call.input = output_.data();
    if (one && problem_.own_of_output())
      call.input = output_.data() + out_.begins[static_cast<std::size_t>(rank_)] * bytes_;
    if (!in_.used) call.input = nullptr;
    if (!out_.used || (one && scatters)) call.output = nullptr;
    if (problem_.collective == Collective::broadcast) call.input = call.output = output_.data();
    if (problem_.listed()) {
      const bool gaps = problem_.has_gaps();
      if (in_.used) call.input_list = {in_.counts.data(), gaps ? in_.begins.data() : nullptr};
      if (out_.used) call.output_list = {out_.counts.data(), gaps ? out_.begins.data() : nullptr};
    }
    return call;
  }

  // Empty if memory is what it must be.
  std::string flaw() const {
    for (const auto &[name, is, should] :
         {std::tuple{"input", &input_, &input_after_}, std::tuple{"output", &output_, &output_after_}}) {
      const auto [at, other] = std::mismatch(is->begin(), is->end(), should->begin());
      if (at != is->end())
        return std::string(name) + " is wrong at element " + std::to_string(std::size_t(at - is->begin()) / bytes_);
    }
    return {};
  }

  static comm::Shape shape(const Problem &problem, reduce::Type type, reduce::Op op) {
    comm::Shape shape = {.collective = problem.collective, .type = type, .op = op, .count = problem.count};
    if (problem.rooted()) shape.root = problem.root;
    if (!problem.listed()) return shape;
    shape.count = 0;
    if (problem.collective != Collective::reduce_scatter && problem.collective != Collective::allgatherv) return shape;
    const Side all = problem.collective == Collective::reduce_scatter ? problem.input(0) : problem.output(0);
    shape.count = all.elements();
    shape.counts_digest =
        comm::digest(all.counts.data(), problem.ranks, reduce::type_bytes(static_cast<std::int32_t>(type)));
    return shape;
  }

 private:
  std::vector<std::byte> elements(const std::vector<std::int64_t> &values, reduce::Type type, Put put) const {
    std::vector<std::byte> bytes(values.size() * bytes_);
    for (std::size_t i = 0; i < values.size(); ++i) put(bytes.data() + i * bytes_, type, values[i]);
    return bytes;
  }

  Problem problem_;
  int rank_;
  std::size_t bytes_;
  Memory memory_;
  Side in_, out_;
  reduce::Type type_{};
  reduce::Op op_{};
  std::vector<std::byte> input_, output_, input_after_, output_after_;
};

}  // namespace tutti::test

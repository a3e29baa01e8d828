// SPDX-License-Identifier: BSD-3-Clause
//
// What a step does to memory: shared by runs over messages (execution.cc) and on a board (execution_board.cc).
#pragma once

#include "base/hot.h"
#include "base/small_copy.h"
#include "exec/execution.h"

namespace tutti::exec {

TUTTI_HOT std::byte *Execution::address(const collectives::Range &range, std::uint64_t offset) {
  if (range.buffer == collectives::Buffer::scratch) return scratch_.data() + offset;
  return binding_.output + offset;
}

TUTTI_HOT const std::byte *Execution::read_address(const collectives::Range &range, std::uint64_t offset) {
  if (range.buffer == collectives::Buffer::input) return binding_.input + offset;
  return address(range, offset);
}

TUTTI_HOT void Execution::consume(const PlanStep &plan_step, const Run &run, const std::byte *payload,
                                  std::size_t bytes) {
  std::byte *target = address(plan_step.step.target, run.target_offset + run.done);
  if (plan_step.step.kind == collectives::Step::Kind::recv) {
    copy_bytes(target, payload, bytes);
    return;
  }
  const std::byte *local = read_address(plan_step.step.source, run.source_offset + run.done);
  if (plan_step.step.side == collectives::Side::left) binding_.kernel(target, payload, local, elements(bytes));
  else binding_.kernel(target, local, payload, elements(bytes));
}

// A local step, from where it stands on.
TUTTI_HOT void Execution::apply(const collectives::Step &step, const Run &run, std::uint64_t bytes) {
  std::byte *target = address(step.target, run.target_offset + run.done);
  const std::byte *source = read_address(step.source, run.source_offset + run.done);
  if (step.kind == collectives::Step::Kind::copy) {
    if (target != source) copy_bytes(target, source, bytes);
  } else if (step.side == collectives::Side::left) {
    binding_.kernel(target, source, target, elements(bytes));
  } else {
    binding_.kernel(target, target, source, elements(bytes));
  }
}

}  // namespace tutti::exec

// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/verify/form.h"

#include <fmt/format.h>

#include "collectives/verify/verify.h"

namespace tutti::collectives::verify {
namespace {

using Kind = Step::Kind;

const char *buffer_name(Buffer buffer) {
  switch (buffer) {
    case Buffer::input: return "input";
    case Buffer::output: return "output";
    case Buffer::scratch: return "scratch";
  }
  return "?";
}

std::string range_text(const Range &range) {
  return fmt::format("blocks {}..{} of {}", range.first, std::uint64_t{range.first} + range.blocks - 1,
                     buffer_name(range.buffer));
}

bool reads_source(const Step &step) { return step.kind != Kind::recv; }
bool writes_target(const Step &step) { return step.kind != Kind::send; }

std::string range_flaw(const Range &range, const Schedule &schedule, const Parameters &parameters) {
  const std::uint64_t vectors = range.buffer == Buffer::scratch ? schedule.scratch_vectors : 1;
  if (range.blocks == 0) return "a range is empty";
  if (std::uint64_t{range.first} + range.blocks > vectors * schedule.blocks)
    return fmt::format("{} are out of bounds: there are {}", range_text(range), vectors * schedule.blocks);
  if (range.first % schedule.blocks + std::uint64_t{range.blocks} > schedule.blocks)
    return fmt::format("{} pass the end of a vector of {} blocks", range_text(range), schedule.blocks);
  if (parameters.collective == Collective::broadcast && range.buffer != Buffer::output)
    return "a broadcast has no buffer but output";
  return {};
}

}  // namespace

bool has_peer(const Step &step) { return step.kind == Kind::send || is_receive(step); }
bool is_receive(const Step &step) { return step.kind == Kind::recv || step.kind == Kind::recv_reduce; }

Interval interval(const Range &range, std::uint32_t blocks, bool in_place) {
  std::uint64_t base = 0;
  if (range.buffer == Buffer::input && !in_place) base = blocks;
  if (range.buffer == Buffer::scratch) base = 2 * std::uint64_t{blocks};
  return {base + range.first, base + range.first + range.blocks};
}

Access access(const Step &step, std::uint32_t blocks, bool in_place) {
  Access result;
  if (reads_source(step)) result.read = interval(step.source, blocks, in_place);
  if (writes_target(step)) result.write = interval(step.target, blocks, in_place);
  // The target of a reduce is an operand too; that it is written already orders it after whatever wrote it.
  return result;
}

std::string form_flaw(const Step &step, const Schedule &schedule, const Parameters &parameters) {
  for (const auto &[used, range] :
       {std::pair{reads_source(step), &step.source}, std::pair{writes_target(step), &step.target}}) {
    if (!used && *range != Range{}) return "a range is set that the step does not use";
    if (!used) continue;
    if (std::string flaw = range_flaw(*range, schedule, parameters); !flaw.empty()) return flaw;
  }
  if (has_peer(step) ? step.peer < 0 || step.peer >= parameters.ranks : step.peer != -1)
    return fmt::format("there is no peer {} here", step.peer);
  if (writes_target(step) && step.target.buffer == Buffer::input && !parameters.in_place) return "it writes the input";
  if (!reads_source(step) || !writes_target(step)) return {};

  if (step.source.blocks != step.target.blocks ||
      step.source.first % schedule.blocks != step.target.first % schedule.blocks)
    return "source and target are different blocks of their vectors, which differ in size for some counts";
  const Interval source = interval(step.source, schedule.blocks, parameters.in_place);
  const Interval target = interval(step.target, schedule.blocks, parameters.in_place);
  const bool may_be_equal = step.kind == Kind::recv_reduce;
  if (source.meets(target) && !(may_be_equal && source == target)) return "source and target overlap";
  return {};
}

std::string step_text(const Step &step) {
  const char *side = step.side == Side::left ? "left" : "right";
  const std::string source = range_text(step.source), target = range_text(step.target);
  switch (step.kind) {
    case Kind::send: return fmt::format("send {} to {}", source, step.peer);
    case Kind::recv: return fmt::format("recv {} from {}", target, step.peer);
    case Kind::recv_reduce:
      return fmt::format("recv_reduce {} from {} on the {} of {}", target, step.peer, side, source);
    case Kind::reduce: return fmt::format("reduce {} with {} on the {}", target, source, side);
    case Kind::copy: return fmt::format("copy {} to {}", source, target);
  }
  return "unknown step";
}

}  // namespace tutti::collectives::verify

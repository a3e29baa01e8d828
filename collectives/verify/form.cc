// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/verify/form.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/form.h"
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

std::uint64_t blocks_in(Buffer buffer, const Schedule &schedule) {
  switch (buffer) {
    case Buffer::input: return schedule.input_blocks;
    case Buffer::output: return schedule.output_blocks;
    case Buffer::scratch: return std::uint64_t{schedule.scratch_vectors} * schedule.blocks;
  }
  return 0;
}

std::string range_flaw(const Range &range, const Schedule &schedule, const Parameters &parameters) {
  const std::uint64_t blocks = blocks_in(range.buffer, schedule);
  if (range.blocks == 0) return "a range is empty";
  if (std::uint64_t{range.first} + range.blocks > blocks)
    return fmt::format("{} are out of bounds: there are {}", range_text(range), blocks);
  if (range.buffer == Buffer::scratch && range.first % schedule.blocks + std::uint64_t{range.blocks} > schedule.blocks)
    return fmt::format("{} pass the end of a vector of {} blocks", range_text(range), schedule.blocks);
  if (range.buffer != Buffer::scratch && range.blocks > 1 && form_of(parameters.collective).displaced)
    return fmt::format("{} are no range: there may be gaps between them", range_text(range));
  return {};
}

// Equal numbers mean equal sizes, whatever the counts.
std::uint64_t size_class(const Place &place, std::uint32_t block) {
  const Schedule &schedule = place.schedule;
  const Buffer buffer = place.range.buffer;
  const auto ranks = static_cast<std::uint64_t>(place.parameters.ranks);
  const auto rank = static_cast<std::uint64_t>(place.parameters.rank);
  const std::uint64_t in_vector = block % schedule.blocks;
  switch (schedule.partition) {
    case Partition::equal: return 0;
    case Partition::even: return in_vector;
    case Partition::listed: break;
  }
  const Form &form = form_of(place.parameters.collective);
  if (form.input == Extent::vector && form.output == Extent::vector) {  // what goes from one rank to another
    std::uint64_t from = rank, to = in_vector;
    // In place there is one list of counts: two ranks swap as much as they have of each other.
    if (schedule.in_place == InPlace::none ? buffer == Buffer::output : from > to) std::swap(from, to);
    return from * ranks + to;
  }
  const Extent extent = buffer == Buffer::input ? form.input : form.output;
  return buffer != Buffer::scratch && extent == Extent::own ? rank : in_vector;
}

bool may_write(Buffer buffer, const Schedule &schedule) {
  const bool output_is_there = schedule.in_place == InPlace::same || schedule.in_place == InPlace::own_of_output;
  if (buffer == Buffer::input) return output_is_there;
  return buffer == Buffer::scratch || schedule.in_place != InPlace::own_of_input;
}

}  // namespace

bool has_peer(const Step &step) { return step.kind == Kind::send || is_receive(step); }
bool is_receive(const Step &step) { return step.kind == Kind::recv || step.kind == Kind::recv_reduce; }

Access access(const Step &step, const Schedule &schedule) {
  Access result;
  if (reads_source(step)) result.read = place_of(schedule, step.source);
  if (writes_target(step)) result.write = place_of(schedule, step.target);
  // The target of a reduce is an operand too; that it is written already orders it after whatever wrote it.
  return result;
}

bool same_sizes(const Place &one, const Place &other) {
  if (one.range.blocks != other.range.blocks) return false;
  for (std::uint32_t block = 0; block < one.range.blocks; ++block)
    if (size_class(one, one.range.first + block) != size_class(other, other.range.first + block)) return false;
  return true;
}

std::string buffers_flaw(const Schedule &schedule, const Parameters &parameters) {
  const Form &form = form_of(parameters.collective);
  const auto ranks = static_cast<std::uint32_t>(parameters.ranks);
  if (schedule.blocks == 0) return "its vectors have no blocks";
  if (schedule.partition != form.partition) return "it cuts its vectors in a way that is not the collective's";
  if (schedule.partition == Partition::listed && schedule.blocks != ranks)
    return fmt::format("it has {} blocks where each rank has one", schedule.blocks);
  const std::uint32_t vector = form.partition == Partition::even ? schedule.blocks : ranks;
  const std::uint32_t input = blocks_of(form.input, parameters, vector);
  const std::uint32_t output = blocks_of(form.output, parameters, vector);
  if (schedule.input_blocks != input || schedule.output_blocks != output)
    return fmt::format("it has {} blocks of input and {} of output, the collective {} and {}", schedule.input_blocks,
                       schedule.output_blocks, input, output);
  if (schedule.in_place != in_place_of(parameters) || schedule.own != static_cast<std::uint32_t>(parameters.rank))
    return "it is in place in another way than the collective";
  if (schedule.partition == Partition::listed && schedule.scratch_vectors > 0 && std::max(input, output) < ranks)
    return "it has scratch of a size that nobody knows here";
  return {};
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
  if (step.after != -1 && step.kind != Kind::send) return "only a send may wait for another step's end";
  if (writes_target(step) && !may_write(step.target.buffer, schedule)) return "it writes the input";
  if ((step.kind == Kind::recv_reduce || step.kind == Kind::reduce) && !form_of(parameters.collective).reduces)
    return "there is no operator to reduce with";
  if (!reads_source(step) || !writes_target(step)) return {};

  if (!same_sizes({schedule, parameters, step.source}, {schedule, parameters, step.target}))
    return "source and target are different blocks of their vectors, which differ in size for some counts";
  const Interval source = place_of(schedule, step.source), target = place_of(schedule, step.target);
  const bool may_be_equal = step.kind == Kind::recv_reduce;
  if (source.meets(target) && !(may_be_equal && source == target)) return "source and target overlap";
  return {};
}

std::string step_text(const Step &step) {
  const char *side = step.side == Side::left ? "left" : "right";
  const std::string source = range_text(step.source), target = range_text(step.target);
  switch (step.kind) {
    case Kind::send:
      return fmt::format("send {} to {}{}", source, step.peer,
                         step.after >= 0 ? fmt::format(" after step {}", step.after) : "");
    case Kind::recv: return fmt::format("recv {} from {}", target, step.peer);
    case Kind::recv_reduce:
      return fmt::format("recv_reduce {} from {} on the {} of {}", target, step.peer, side, source);
    case Kind::reduce: return fmt::format("reduce {} with {} on the {}", target, source, side);
    case Kind::copy: return fmt::format("copy {} to {}", source, target);
  }
  return "unknown step";
}

}  // namespace tutti::collectives::verify

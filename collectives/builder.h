// SPDX-License-Identifier: BSD-3-Clause
//
// What generators write schedules with: one call a step, and index arithmetic modulo the number of ranks. A builder
// adds nothing of its own: the steps come out as they were called, except that an empty range gives no step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "collectives/form.h"
#include "collectives/schedule.h"

namespace tutti::collectives {

// (value mod modulus) in [0, modulus), also for negative values.
inline std::int32_t wrap(std::int64_t value, std::int32_t modulus) {
  TUTTI_CHECK(modulus > 0, "wrapped by {}", modulus);
  const std::int64_t rest = value % modulus;
  return static_cast<std::int32_t>(rest < 0 ? rest + modulus : rest);
}

// The number of halvings, rounding up, that bring `ranks` to 1: the rounds of anything binomial.
inline std::int32_t ceil_log2(std::int32_t ranks) {
  std::int32_t rounds = 0;
  while ((std::int64_t{1} << rounds) < ranks) ++rounds;
  return rounds;
}

class Builder {
 public:
  // Whole vectors of this schedule have so many blocks.
  Builder(const Parameters &parameters, std::uint32_t blocks) {
    const Form &form = form_of(parameters.collective);
    schedule_.blocks = blocks;
    schedule_.partition = form.partition;
    schedule_.in_place = in_place_of(parameters);
    schedule_.own = std::uint32_t(parameters.rank);
    schedule_.input_blocks = blocks_of(form.input, parameters, blocks);
    schedule_.output_blocks = blocks_of(form.output, parameters, blocks);
  }

  bool in_place() const { return schedule_.in_place != InPlace::none; }
  Range input(std::uint32_t first, std::uint32_t blocks = 1) const { return {Buffer::input, first, blocks}; }
  Range output(std::uint32_t first, std::uint32_t blocks = 1) const { return {Buffer::output, first, blocks}; }
  // A whole vector: of scratch, vector 0.
  Range whole(Buffer buffer) {
    if (buffer == Buffer::scratch) return scratch(0);
    return {buffer, 0, schedule_.blocks};
  }
  // All of a scratch vector, or blocks of it, which the schedule has from then on.
  Range scratch(std::uint32_t vector = 0) { return scratch_blocks(vector, 0, schedule_.blocks); }
  Range scratch_blocks(std::uint32_t vector, std::uint32_t first, std::uint32_t blocks = 1) {
    schedule_.scratch_vectors = std::max(schedule_.scratch_vectors, vector + 1);
    return {Buffer::scratch, vector * schedule_.blocks + first, blocks};
  }
  // Blocks of a whole vector in that buffer.
  Range part(Buffer buffer, std::uint32_t first, std::uint32_t blocks = 1) {
    if (buffer == Buffer::scratch) return scratch_blocks(0, first, blocks);
    return {buffer, first, blocks};
  }

  void send(std::int32_t peer, Range source, std::int32_t after = -1) {
    add({.kind = Step::Kind::send, .peer = peer, .source = source, .after = after}, source.blocks);
  }
  void recv(std::int32_t peer, Range target) {
    add({.kind = Step::Kind::recv, .peer = peer, .target = target}, target.blocks);
  }
  void recv_reduce(std::int32_t peer, Side side, Range source, Range target) {
    add({.kind = Step::Kind::recv_reduce, .side = side, .peer = peer, .source = source, .target = target},
        target.blocks);
  }
  void reduce(Side side, Range source, Range target) {
    add({.kind = Step::Kind::reduce, .side = side, .source = source, .target = target}, target.blocks);
  }
  void copy(Range source, Range target) {
    add({.kind = Step::Kind::copy, .source = source, .target = target}, target.blocks);
  }

  // The number of the next step.
  std::int32_t steps() const { return std::int32_t(schedule_.steps.size()); }
  Schedule take() { return std::move(schedule_); }

 private:
  void add(const Step &step, std::uint32_t blocks) {
    if (blocks > 0) schedule_.steps.push_back(step);
  }
  Schedule schedule_;
};

// A reduction of one rank: its vector is the result.
inline Schedule vector_alone(const Parameters &parameters) {
  Builder builder(parameters, 1);
  if (!builder.in_place()) builder.copy(builder.whole(Buffer::input), builder.whole(Buffer::output));
  return builder.take();
}

// The same on boards (Algorithm::on_board); what differs, its caller changes.
inline Algorithm on_board(Algorithm algorithm, std::string_view summary) {
  algorithm.name = "board";
  algorithm.summary = summary;
  algorithm.on_board = true;
  return algorithm;
}

inline bool supports_all(const Parameters &) { return true; }
inline bool supports_radix(const Parameters &parameters) { return parameters.radix >= 2; }

// Every rank's p - 1 other blocks, once.
inline std::uint64_t all_other_blocks(const Parameters &parameters) {
  return std::uint64_t(parameters.ranks) * (parameters.ranks - 1);
}
inline std::uint64_t one_from_each_other(const Parameters &parameters) { return parameters.ranks - 1; }
// Reduce-scatter, then allgather.
inline std::uint64_t reduce_scatter_allgather_blocks(const Parameters &parameters) {
  return 2 * all_other_blocks(parameters);
}

// Where a reduction's own contribution is read from.
inline Buffer own_buffer(const Parameters &parameters) {
  return in_place_of(parameters) == InPlace::same ? Buffer::output : Buffer::input;
}

}  // namespace tutti::collectives

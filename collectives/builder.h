// SPDX-License-Identifier: BSD-3-Clause
//
// What generators write schedules with: one call a step, and index arithmetic modulo the number of ranks. A builder
// adds nothing of its own: the steps come out as they were called, except that an empty range gives no step.
#pragma once

#include <cstdint>
#include <utility>

#include "collectives/schedule.h"

namespace tutti::collectives {

// (value mod modulus) in [0, modulus), also for negative values.
inline std::int32_t wrap(std::int64_t value, std::int32_t modulus) {
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
  explicit Builder(std::uint32_t blocks) { schedule_.blocks = blocks; }

  Range output(std::uint32_t first, std::uint32_t blocks) const { return {Buffer::output, first, blocks}; }
  Range whole(Buffer buffer) const { return {buffer, 0, schedule_.blocks}; }
  // All of scratch vector 0, which the schedule has from then on.
  Range scratch() {
    schedule_.scratch_vectors = 1;
    return whole(Buffer::scratch);
  }

  void send(std::int32_t peer, Range source) {
    add({.kind = Step::Kind::send, .peer = peer, .source = source}, source.blocks);
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

  Schedule take() { return std::move(schedule_); }

 private:
  void add(const Step &step, std::uint32_t blocks) {
    if (blocks > 0) schedule_.steps.push_back(step);
  }
  Schedule schedule_;
};

// The allreduce of one rank.
inline Schedule allreduce_alone(const Parameters &parameters) {
  Builder builder(1);
  if (!parameters.in_place) builder.copy(builder.whole(Buffer::input), builder.whole(Buffer::output));
  return builder.take();
}

inline bool supports_all(const Parameters &) { return true; }

// Reduce-scatter and allgather each send every rank's p - 1 other blocks once.
inline std::uint64_t reduce_scatter_allgather_blocks(const Parameters &parameters) {
  return 2 * std::uint64_t(parameters.ranks) * (parameters.ranks - 1);
}

// Where an allreduce's own contribution is read from.
inline Buffer own_buffer(const Parameters &parameters) { return parameters.in_place ? Buffer::output : Buffer::input; }

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// What every collective must do, worked out from MPI's definition without any of the library's code but names: which
// buffers a rank has, what is in them before a call, and what must be in them after it, to the last byte around them.
// Elements are small integers, from which a test makes elements of its type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/schedule.h"

namespace tutti::test {

using collectives::Collective;

// A side of a call on one rank: its blocks, in elements.
struct Side {
  bool used = false;
  std::vector<std::size_t> counts, begins;
  // Elements of the memory that holds it, and a few more, which must stay as they are.
  std::size_t extent() const {
    std::size_t end = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) end = std::max(end, begins[i] + counts[i]);
    return end + kMargin;
  }
  std::size_t elements() const {
    std::size_t all = 0;
    for (const std::size_t count : counts) all += count;
    return all;
  }
  static constexpr std::size_t kMargin = 3;
};

struct Problem {
  Collective collective = Collective::allreduce;
  int ranks = 1;
  int root = 0;
  std::size_t count = 0;  // of the vector; where blocks differ, around what they differ
  bool in_place = false;
  bool gaps = false;  // listed blocks lie in reverse order with gaps; else displacements are left out
  std::function<std::int64_t(int rank, std::size_t element)> give = nullptr;  // the element'th that a rank puts in
  std::function<std::int64_t(std::int64_t, std::int64_t)> combine = std::plus<std::int64_t>{};

  std::function<std::int64_t(int last, std::size_t element)> fold =
      nullptr;  // what combining ranks below `last` gives, if known

  bool rooted() const {
    switch (collective) {
      case Collective::broadcast:
      case Collective::reduce:
      case Collective::gather:
      case Collective::gatherv:
      case Collective::scatter:
      case Collective::scatterv: return true;
      default: return false;
    }
  }
  bool reduces() const {
    switch (collective) {
      case Collective::allreduce:
      case Collective::reduce:
      case Collective::reduce_scatter_block:
      case Collective::reduce_scatter:
      case Collective::scan:
      case Collective::exscan: return true;
      default: return false;
    }
  }
  bool listed() const {
    switch (collective) {
      case Collective::reduce_scatter:
      case Collective::allgatherv:
      case Collective::gatherv:
      case Collective::scatterv:
      case Collective::alltoallv: return true;
      default: return false;
    }
  }
  // In place the input is the own block of the output, or the output that of the input, or neither.
  bool own_of_output() const {
    return collective == Collective::allgather || collective == Collective::allgatherv ||
           collective == Collective::gather || collective == Collective::gatherv;
  }
  bool own_of_input() const { return collective == Collective::scatter || collective == Collective::scatterv; }
  bool has_gaps() const { return gaps && listed() && collective != Collective::reduce_scatter; }

  // Listed counts: some more, some less, some nothing.
  std::size_t size(int from, int to) const {
    if (!listed()) return count;
    const int kind = from * 5 + to * 3;
    return kind % 4 == 1 ? 0 : count + static_cast<std::size_t>(kind % 7);
  }
  // In place, what two ranks send each other takes the same room.
  std::size_t pair_size(int from, int to) const {
    return in_place ? size(std::min(from, to), std::max(from, to)) : size(from, to);
  }

  Side input(int rank) const {
    switch (collective) {
      case Collective::broadcast: return rank == root ? vector() : Side{};
      case Collective::allgather:
      case Collective::allgatherv:
      case Collective::gather:
      case Collective::gatherv: return one(size(rank, 0));
      case Collective::scatter:
      case Collective::scatterv: return rank == root ? blocks([&](int to) { return size(0, to); }, has_gaps()) : Side{};
      case Collective::reduce_scatter_block:
      case Collective::reduce_scatter: return blocks([&](int to) { return size(0, to); }, false);
      case Collective::alltoall:
      case Collective::alltoallv: return blocks([&](int to) { return pair_size(rank, to); }, has_gaps());
      default: return vector();
    }
  }
  Side output(int rank) const {
    switch (collective) {
      case Collective::reduce: return rank == root ? vector() : Side{};
      case Collective::gather:
      case Collective::gatherv:
        if (rank != root) return {};
        [[fallthrough]];
      case Collective::allgather:
      case Collective::allgatherv: return blocks([&](int from) { return size(from, 0); }, has_gaps());
      case Collective::scatter:
      case Collective::scatterv:
      case Collective::reduce_scatter_block:
      case Collective::reduce_scatter: return one(size(0, rank));
      case Collective::alltoall:
      case Collective::alltoallv: return blocks([&](int from) { return pair_size(from, rank); }, has_gaps());
      default: return vector();
    }
  }

  // Whether this rank's buffers are one: where only the root has two, only there.
  bool one_buffer(int rank) const {
    if (collective == Collective::broadcast) return true;
    return in_place && (!rooted() || rank == root);
  }

  // What an output block must hold: element first + i of one rank, or of all ranks below `last` combined.
  struct Origin {
    int from = 0, last = 0;  // last 0: nothing is combined
    std::size_t first = 0;
    bool untouched = false;  // the block stays as it was
  };
  Origin origin(int rank, int block) const {
    switch (collective) {
      case Collective::broadcast: return {.from = root};
      case Collective::allgather:
      case Collective::allgatherv:
      case Collective::gather:
      case Collective::gatherv: return {.from = block};
      case Collective::scatter:
      case Collective::scatterv: return {.from = root, .first = first_of(input(root), rank)};
      case Collective::alltoall:
      case Collective::alltoallv: return {.from = block, .first = first_of(input(block), rank)};
      case Collective::reduce_scatter:
      case Collective::reduce_scatter_block: return {.last = ranks, .first = first_of(input(rank), rank)};
      case Collective::scan: return {.last = rank + 1};
      case Collective::exscan: return {.last = rank, .untouched = rank == 0};
      default: return {.last = ranks};
    }
  }
  std::int64_t value(const Origin &origin, std::size_t i) const {
    if (origin.last == 0) return give(origin.from, origin.first + i);
    if (fold) return fold(origin.last, origin.first + i);
    std::int64_t result = give(0, origin.first + i);
    for (int other = 1; other < origin.last; ++other) result = combine(result, give(other, origin.first + i));
    return result;
  }

 private:
  // Counted through the blocks.
  static std::size_t first_of(const Side &side, int block) {
    std::size_t first = 0;
    for (int before = 0; before < block; ++before) first += side.counts[static_cast<std::size_t>(before)];
    return first;
  }
  Side vector() const { return one(count); }
  static Side one(std::size_t count) { return {true, {count}, {0}}; }
  template <class Size>
  Side blocks(const Size &size, bool spread) const {
    Side side{true, {}, {}};
    for (int rank = 0; rank < ranks; ++rank) side.counts.push_back(size(rank));
    side.begins.resize(side.counts.size());
    std::size_t begin = spread ? 2 : 0;
    for (std::size_t n = 0; n < side.counts.size(); ++n) {
      const std::size_t block = spread ? side.counts.size() - 1 - n : n;
      side.begins[block] = begin;
      begin += side.counts[block] + (spread ? 1 + block % 3 : 0);
    }
    return side;
  }
};

// The memory of one rank: what is in it before the call and must be in it after it. In place only one of the two is
// used: the input's for a scatter, the output's else.
struct Memory {
  std::vector<std::int64_t> input, output, input_after, output_after;
  // Where the sides begin in their memory; in place, both in the one.
  bool in_place = false;
};

inline constexpr std::int64_t kUntouched = 77;

inline Memory memory_of(const Problem &problem, int rank) {
  const Side in = problem.input(rank), out = problem.output(rank);
  const bool scatters = problem.own_of_input();
  Memory memory;
  memory.in_place = problem.one_buffer(rank);
  const bool apart = !memory.in_place;
  if (in.used && (apart || scatters)) memory.input.assign(in.extent(), kUntouched);
  if (out.used && (apart || !scatters))
    memory.output.assign(apart ? out.extent() : std::max(out.extent(), in.used ? in.extent() : std::size_t{0}),
                         kUntouched);
  std::size_t element = 0;
  // In place the own block of a gather lies where it will be.
  const bool own_block = !apart && problem.own_of_output();
  for (std::size_t block = 0; in.used && block < in.counts.size(); ++block)
    for (std::size_t i = 0; i < in.counts[block]; ++i) {
      std::vector<std::int64_t> &to = apart || scatters ? memory.input : memory.output;
      to[(own_block ? out.begins[static_cast<std::size_t>(rank)] : in.begins[block]) + i] =
          problem.give(rank, element++);
    }
  memory.input_after = memory.input;
  memory.output_after = memory.output;
  for (std::size_t block = 0; !memory.output.empty() && block < out.counts.size(); ++block) {
    const Problem::Origin origin = problem.origin(rank, static_cast<int>(block));
    for (std::size_t i = 0; !origin.untouched && i < out.counts[block]; ++i)
      memory.output_after[out.begins[block] + i] = problem.value(origin, i);
  }
  return memory;
}

}  // namespace tutti::test

// SPDX-License-Identifier: BSD-3-Clause
//
// The collectives that can be measured: one row each. A row says how both libraries are called, what a right result is,
// and which formulas turn a time into bandwidths and bytes into a physical limit. A new collective is a new row.
#pragma once

#include "tutti-perf/elements.h"

namespace tutti::perf {

// One call. `in` is null where a collective has one buffer only; in place, in == out. What has a count for each rank
// gets the same for all.
struct Call {
  void *in = nullptr;
  void *out = nullptr;
  std::size_t count = 0;
  const ElementType *type = nullptr;
  const Operator *op = nullptr;
  int root = 0;
  bool in_place = false;
  const std::size_t *counts = nullptr;  // by rank
  const int *mpi_counts = nullptr, *mpi_displs = nullptr;
};

// What the machine allows, as the probe measured it.
struct Physics {
  double hand_off_us = 0;             // half a round trip of a cache line between the cores
  double one_way_bytes_per_us = 0;    // copying from core to core, one direction busy
  double both_ways_bytes_per_us = 0;  // each direction's share with both busy
};

// What a rank's output holds: `count` elements, or as many for each rank.
enum class Outcome {
  nothing,
  reduction,       // of all ranks' vectors
  root_reduction,  // the same, on the root
  reduced_block,   // this rank's block of it
  prefix,          // of the vectors of the ranks up to this one
  prefix_before,   // of those before it
  root,            // the root's vector
  root_block,      // this rank's block of the root's
  blocks,          // a block from each rank
  root_blocks,     // the same, on the root
  exchange,        // this rank's block from each rank
};

struct Collective {
  const char *name;
  Outcome outcome;
  bool reduces, rooted;
  enum class Places { one, two, both } places;  // always in place, never, as asked
  double (*bus_factor)(int ranks);
  double (*limit_us)(const Physics &, int ranks, double bytes);  // bytes of the whole, as below
  tutti_result (*ours)(const Call &, tutti_comm *);
  int (*peer)(const Call &, MPI_Comm);

  // How many times `count` elements the whole vector has: bandwidths are about that.
  int blocks(int ranks) const;
  // avg has no meaning for the first of the ranks.
  bool takes(const Operator &op) const {
    return op.id != TUTTI_AVG || (outcome != Outcome::prefix && outcome != Outcome::prefix_before);
  }
};

std::span<const Collective> collectives();

}  // namespace tutti::perf

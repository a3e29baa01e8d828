// SPDX-License-Identifier: BSD-3-Clause
//
// The collectives that can be measured: one row each. A row says how both libraries are called, what a right result is,
// and which formulas turn a time into bandwidths and bytes into a physical limit. A new collective is a new row.
#pragma once

#include "tutti-perf/elements.h"

namespace tutti::perf {

// One call. `in` is null where a collective has one buffer only; in place, in == out.
struct Call {
  void *in = nullptr;
  void *out = nullptr;
  std::size_t count = 0;
  const ElementType *type = nullptr;
  const Operator *op = nullptr;
  int root = 0;
};

// What the machine allows, as the probe measured it.
struct Physics {
  double hand_off_us = 0;             // half a round trip of a cache line between the cores
  double one_way_bytes_per_us = 0;    // copying from core to core, one direction busy
  double both_ways_bytes_per_us = 0;  // each direction's share with both busy
};

enum class Outcome { reduction, root };

struct Collective {
  const char *name;
  Outcome outcome;  // what every rank's output holds
  bool one_buffer;  // always in place
  double (*bus_factor)(int ranks);
  double (*limit_us)(const Physics &, int ranks, double bytes);
  tutti_result (*ours)(const Call &, tutti_comm *);
  int (*peer)(const Call &, MPI_Comm);
};

std::span<const Collective> collectives();

}  // namespace tutti::perf

// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-sched cost: what the algorithms of a collective would take on a machine of given latency, gap and bandwidth, as
// a table and as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "collectives/schedule.h"
#include "collectives/variant.h"

namespace tutti::sched {

struct CostQuestion {
  collectives::Collective collective = collectives::Collective::allreduce;
  const collectives::Variant *variant = nullptr;  // null: all algorithms
  std::int32_t ranks = 4, root = 0, radix = 0;
  bool in_place = false;
  std::uint64_t bytes = 8;
  std::uint32_t element_bytes = 4;
  std::int32_t ranks_per_host = 1;
  double latency_us = 1, gap_us = 0.1, gigabytes_per_s = 12, reduced_gigabytes_per_s = 20;
  double host_latency_us = 0.3, host_gap_us = 0.05, host_gigabytes_per_s = 10;
  std::string json;  // file; empty: none
};

// The table; writes the file. Error: a file that cannot be written.
Result<std::string> cost_text(const CostQuestion &question);

}  // namespace tutti::sched

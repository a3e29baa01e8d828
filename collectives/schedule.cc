// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/schedule.h"

#include <algorithm>

#include "collectives/algorithms.h"

namespace tutti::collectives {

Interval place_of(const Schedule &schedule, const Range &range) {
  std::uint64_t base = 0;
  switch (range.buffer) {
    case Buffer::input:
      if (schedule.in_place == InPlace::own_of_output) base = schedule.input_blocks + std::uint64_t{schedule.own};
      break;
    case Buffer::output:
      base = schedule.input_blocks;
      if (schedule.in_place == InPlace::same) base = 0;
      if (schedule.in_place == InPlace::own_of_input) base = schedule.own;
      // Nobody knows which blocks of the input the output covers: all of them, and a place of its own for its value.
      if (schedule.in_place == InPlace::top_of_input) return {0, base + range.first + range.blocks};
      break;
    case Buffer::scratch: base = schedule.input_blocks + std::uint64_t{schedule.output_blocks}; break;
  }
  return {base + range.first, base + range.first + range.blocks};
}

std::uint64_t row_blocks(const Schedule &schedule) {
  return schedule.input_blocks + std::uint64_t{schedule.output_blocks} +
         std::uint64_t{schedule.scratch_vectors} * schedule.blocks;
}

const std::vector<Algorithm> &algorithms() {
  // Never destroyed, as the other tables here: programs finalize in their own destructors.
  static const auto &rows = *new std::vector<Algorithm>{
      allreduce_direct(),
      allreduce_recursive_doubling(),
      allreduce_recursive_multiplying(),
      allreduce_ring(),
      allreduce_circulant(),
      allreduce_hierarchical(),
      allreduce_leaders(),
      allreduce_board(),
      allreduce_board_blocks(),
      allreduce_board_root(),
      broadcast_knomial(),
      broadcast_scatter_allgather(),
      broadcast_chain(),
      broadcast_circulant(),
      broadcast_hierarchical(),
      broadcast_board(),
      barrier_dissemination(),
      barrier_hierarchical(),
      barrier_board(),
      reduce_knomial(),
      reduce_knomial_ordered(),
      reduce_scatter_gather(),
      reduce_chain(),
      reduce_circulant(),
      reduce_hierarchical(),
      reduce_board(),
      reduce_scatter_block_circulant(),
      reduce_scatter_block_ring(),
      reduce_scatter_block_direct(),
      reduce_scatter_block_board(),
      reduce_scatter_circulant(),
      reduce_scatter_ring(),
      reduce_scatter_direct(),
      reduce_scatter_board(),
      allgather_circulant(),
      allgather_ring(),
      allgather_direct(),
      allgather_board(),
      allgatherv_circulant(),
      allgatherv_ring(),
      allgatherv_direct(),
      gather_knomial(),
      gather_direct(),
      gatherv_direct(),
      scatter_knomial(),
      scatter_direct(),
      scatterv_direct(),
      alltoall_direct(),
      alltoall_bruck(),
      alltoall_board(),
      alltoall_throttled(),
      alltoallv_direct(),
      alltoallv_throttled(),
      scan_doubling(),
      exscan_doubling(),
  };
  return rows;
}

const Algorithm *find_algorithm(Collective collective, std::string_view name) {
  const std::vector<Algorithm> &rows = algorithms();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Algorithm &algorithm) {
    return algorithm.collective == collective && algorithm.name == name;
  });
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// The rows that algorithms() lists: each is made in the file of its name, which holds everything about the algorithm
// (variants for blocks of equal and of listed counts in one). Adding one is a file, a line here, and a line in
// schedule.cc (and a row in select.cc if it should be chosen).
#pragma once

#include "collectives/schedule.h"

namespace tutti::collectives {

Algorithm allreduce_direct();
Algorithm allreduce_board();
Algorithm allreduce_board_blocks();
Algorithm allreduce_board_root();
Algorithm allreduce_recursive_doubling();
Algorithm allreduce_recursive_multiplying();
Algorithm allreduce_ring();
Algorithm allreduce_circulant();
Algorithm allreduce_hierarchical();
Algorithm allreduce_leaders();
Algorithm broadcast_knomial();
Algorithm broadcast_board();
Algorithm broadcast_scatter_allgather();
Algorithm broadcast_chain();
Algorithm broadcast_circulant();
Algorithm broadcast_hierarchical();
Algorithm barrier_dissemination();
Algorithm barrier_board();
Algorithm barrier_hierarchical();
Algorithm reduce_knomial();
Algorithm reduce_board();
Algorithm reduce_knomial_ordered();
Algorithm reduce_scatter_gather();
Algorithm reduce_chain();
Algorithm reduce_circulant();
Algorithm reduce_hierarchical();
Algorithm reduce_scatter_block_circulant();
Algorithm reduce_scatter_block_ring();
Algorithm reduce_scatter_block_direct();
Algorithm reduce_scatter_block_board();
Algorithm reduce_scatter_circulant();
Algorithm reduce_scatter_ring();
Algorithm reduce_scatter_direct();
Algorithm reduce_scatter_board();
Algorithm allgather_circulant();
Algorithm allgather_ring();
Algorithm allgather_direct();
Algorithm allgather_board();
Algorithm allgatherv_circulant();
Algorithm allgatherv_ring();
Algorithm allgatherv_direct();
Algorithm gather_knomial();
Algorithm gather_direct();
Algorithm gatherv_direct();
Algorithm scatter_knomial();
Algorithm scatter_direct();
Algorithm scatterv_direct();
Algorithm alltoall_direct();
Algorithm alltoall_bruck();
Algorithm alltoall_board();
Algorithm alltoallv_direct();
Algorithm alltoall_throttled();
Algorithm alltoallv_throttled();
Algorithm scan_doubling();
Algorithm exscan_doubling();

}  // namespace tutti::collectives

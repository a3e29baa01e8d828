// SPDX-License-Identifier: BSD-3-Clause
//
// A reduction by one rank of what all others send it, strictly in rank order whatever the order of arrival: where
// several ranks do so, all get the same bits.
#pragma once

#include "collectives/builder.h"

namespace tutti::collectives {

// Of `own` and the vectors of the ranks 0 to ranks - 1 but `rank`, two or more in all, into `result`, which may be
// `own`: then what comes before it is reduced beside it, in scratch.
inline void reduce_in_rank_order(Builder &builder, std::int32_t rank, std::int32_t ranks, Range own, Range result) {
  const bool beside = own == result && rank >= 2;
  const Range into = beside ? builder.scratch_blocks(0, result.first, result.blocks) : result;
  std::int32_t next = rank + 1;
  if (rank == 0) {
    builder.recv_reduce(next++, Side::right, own, into);
  } else if (rank == 1) {
    builder.recv_reduce(0, Side::left, own, into);
  } else {
    builder.recv(0, into);
    for (std::int32_t peer = 1; peer < rank; ++peer) builder.recv_reduce(peer, Side::right, into, into);
    builder.reduce(Side::right, own, into);
  }
  for (; next < ranks; ++next) builder.recv_reduce(next, Side::right, into, into);
  if (beside) builder.copy(into, result);
}

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
//
// The rows that algorithms() lists: each is made in the file of its name, which holds everything about the algorithm.
// Adding one is a file, a line here, and a line in schedule.cc (and a row in select.cc if it should be chosen).
#pragma once

#include "collectives/schedule.h"

namespace tutti::collectives {

Algorithm allreduce_direct();
Algorithm allreduce_recursive_doubling();
Algorithm allreduce_ring();
Algorithm allreduce_circulant();
Algorithm broadcast_knomial();
Algorithm broadcast_scatter_allgather();
Algorithm broadcast_chain();

}  // namespace tutti::collectives

// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/schedule.h"

#include <algorithm>

#include "collectives/algorithms.h"

namespace tutti::collectives {

std::string_view collective_name(Collective collective) {
  switch (collective) {
    case Collective::allreduce: return "allreduce";
    case Collective::broadcast: return "broadcast";
  }
  return "unknown";
}

const std::vector<Algorithm> &algorithms() {
  static const std::vector<Algorithm> rows = {
      allreduce_direct(),  allreduce_recursive_doubling(), allreduce_ring(),  allreduce_circulant(),
      broadcast_knomial(), broadcast_scatter_allgather(),  broadcast_chain(),
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

// SPDX-License-Identifier: BSD-3-Clause
#include "control/neighbours.h"

#include <map>

namespace tutti::control {

std::vector<Neighbour> neighbours(int rank, int ranks) {
  std::map<int, bool> links;
  for (int skip = 1; skip < ranks; skip *= 2) {
    const int after = (rank + skip) % ranks, before = (rank - skip + ranks) % ranks;
    links[after] = true;
    links.try_emplace(before, false);
  }
  std::vector<Neighbour> result;
  for (auto [other, we_connect] : links) {
    // The other end may see us at one of the distances, too: then the lower rank connects.
    bool they_connect = false;
    for (int skip = 1; skip < ranks; skip *= 2) they_connect = they_connect || (other + skip) % ranks == rank;
    result.push_back({other, we_connect && (!they_connect || rank < other)});
  }
  return result;
}

}  // namespace tutti::control

// SPDX-License-Identifier: BSD-3-Clause
//
// Which ranks watch each other: a circulant graph, with links to the ranks at distances 1, 2, 4, ... both ways. Every
// rank has about 2 log2(p) links, a flood takes about log2(p)/2 hops, and as many deaths as a rank has links are needed
// to cut the graph. Pure.
#pragma once

#include <vector>

namespace tutti::control {

struct Neighbour {
  int rank;
  bool we_connect;  // exactly one end of each link connects
};

// In ascending order of rank.
std::vector<Neighbour> neighbours(int rank, int ranks);

}  // namespace tutti::control

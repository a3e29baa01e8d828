// SPDX-License-Identifier: BSD-3-Clause
//
// The machine of the cost model: what is between two ranks of different hosts, what is between two of one host, and how
// fast a rank reduces. The parameters are those of LogGP without overheads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tutti::collectives::cost {

struct Link {
  double latency_s = 1e-6;    // of a small message, from the post to its arrival
  double gap_s = 0.1e-6;      // between two messages that leave or arrive at one port
  double bytes_per_s = 12e9;  // in each direction, both at once
};

struct Machine {
  Link network;                                                           // a port is shared by the ranks of a host
  Link host{.latency_s = 0.3e-6, .gap_s = 0.05e-6, .bytes_per_s = 10e9};  // a port is a rank's own
  double reduced_per_s = 20e9;  // bytes of a reduction's result, or of a copy, per rank
};

// How the executor cuts a transfer, so that the next rank can work on what has arrived: four pieces at least, of 8 KiB
// at least, of 64 KiB at most (docs/ARCHITECTURE.md, "Where time goes").
inline double first_piece(double bytes) { return std::min(bytes, std::clamp(bytes / 4, 8.0 * 1024, 64.0 * 1024)); }

}  // namespace tutti::collectives::cost

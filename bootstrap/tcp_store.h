// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks meet over TCP at rank 0, with torchrun's variables. A star: meeting is one round trip, and so is each exchange,
// whatever the number of ranks.
//
// The meeting point. Under torchrun, MASTER_PORT itself usually belongs to torch's own store. So the meeting point is
// the first of MASTER_PORT ... MASTER_PORT+7 that rank 0 can listen on; the others try all of them at once, and the
// keyed hello tells whose port it is. The key is bound to MASTER_PORT: neighbouring jobs do not meet each other by
// mistake.
//
// Trust. With a key, rank 0 listens on all addresses (only on loopback if MASTER_ADDR is), and everyone proves the key
// first. Without one, only a loopback MASTER_ADDR is served, which every user of the host can reach.
#pragma once

#include "bootstrap/bootstrap.h"

namespace tutti::bootstrap {

inline constexpr int kMeetingPorts = 8;

struct TcpOptions {
  int rank = 0;
  int ranks = 1;
  std::string master_address;
  int master_port = 0;
  std::string job_key;    // as read_job_key gives it; empty: loopback only
  std::string interface;  // TUTTI_INTERFACE: which address local_address() tells
};

// Returns when all ranks have met. Errors: timeout, naming the ranks that are missing; config, if ranks disagree or a
// key is needed; peer, if a rank left; version. Rank 0 tells its error to all who came.
Result<std::unique_ptr<Bootstrap>> meet_over_tcp(const TcpOptions &options, Deadline deadline);

}  // namespace tutti::bootstrap

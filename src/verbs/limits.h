// SPDX-License-Identifier: BSD-3-Clause
//
// Queue depths for a mesh, computed and checked against the device's limits before anything is created. Pure.
//
// Invariants: the completion queue holds every completion that can be outstanding (an overrun loses some silently);
// the SRQ holds at least two buffers a peer and the reserve; an error names what is needed, the limit and the knob.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "verbs/offer.h"

namespace tutti::verbs {

struct DepthNeed {
  std::uint32_t peers = 0;  // QPs of this rank on the device
  // Ranks of this host that share the device; 1 on the software device, where each has its own.
  std::uint32_t local_ranks = 1;
  std::uint32_t srq_wanted = 0;   // receive buffers that serve best
  std::uint32_t srq_minimum = 0;  // raised to 2 * peers + reserve
  std::uint32_t srq_reserve = 0;  // for control messages
  // One entry is kept for grants, so that credits always go back: with one alone nothing else could be sent.
  std::uint32_t send_minimum = 2;
};

struct Depths {
  std::uint32_t send_wr = 0;  // a QP's send queue
  std::uint32_t srq_wr = 0;
  std::uint32_t cq_entries = 0;
  std::string text() const;  // "send queue 256, SRQ 512, CQ 2304"
};

Result<Depths> compute_depths(const PortOffer &limits, const DepthNeed &need);

}  // namespace tutti::verbs

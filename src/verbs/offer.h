// SPDX-License-Identifier: BSD-3-Clause
//
// What ranks tell each other about their ports, and which pair of ports two ranks use. Pure functions of exchanged
// bytes.
//
// Invariant: agree() gives both ranks the same pair, or both the same error; only ports that can reach each other are
// paired (same kind and link layer, and same subnet, address scope or host).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "verbs/api.h"
#include "verbs/explain.h"

namespace tutti::verbs {

// A usable port, as exchanged by the bootstrap: plain bytes of fixed size, zero-padded, in host byte order (all ranks
// run the same binary interface; the bootstrap checks it).
struct PortOffer {
  char host[64] = {};       // id of the host; software devices reach each other inside one host only
  char device[64] = {};     // as in /sys/class/infiniband
  char interface[16] = {};  // network interface of the address; of a software device: its subnet
  ibv_gid gid = {};
  std::uint32_t gid_index = 0;
  std::uint32_t max_qp = 0;
  std::uint32_t max_qp_wr = 0;
  std::uint32_t max_srq_wr = 0;
  std::uint32_t max_cqe = 0;
  std::uint32_t max_message = 0;
  std::uint16_t lid = 0;
  std::uint8_t kind = 0;        // DeviceKind
  std::uint8_t port = 0;        // from 1
  std::uint8_t link_layer = 0;  // IBV_LINK_LAYER_*
  std::uint8_t gid_type = 0;    // GidEntry::Type
  std::uint8_t active_mtu = 0;  // enum ibv_mtu
  std::uint8_t max_sge = 0;
  std::uint8_t initiator_depth = 0;      // READs this device may have outstanding on a QP
  std::uint8_t responder_resources = 0;  // READs it can answer at once on a QP
  std::uint8_t far = 0;                  // 1: attached to another NUMA node than the process runs on
  std::uint8_t grh_required = 0;         // 1: the port asks for global routing headers
  std::uint16_t pkey = 0;                // 0: not known, fits any
  std::uint16_t pkey_index = 0;

  bool software() const { return kind == static_cast<std::uint8_t>(DeviceKind::software); }
  GidEntry::Type type() const { return static_cast<GidEntry::Type>(gid_type); }
  // RoCE has no LIDs: every packet needs the global routing header. So does the software device, which has only GIDs.
  bool needs_grh() const { return software() || link_layer != IBV_LINK_LAYER_INFINIBAND || grh_required != 0; }
};
static_assert(std::is_trivially_copyable_v<PortOffer> && sizeof(PortOffer) == 200, "the wire layout has no padding");

// "rxe0:1".
std::string offer_name(const PortOffer &offer);
// "rxe0:1 (RoCE v2 ::ffff:10.0.0.1, MTU 1024, host n1)".
std::string offer_text(const PortOffer &offer);
// 256 ... 4096; 0 for what is not an MTU.
int mtu_bytes(std::uint8_t mtu);

// One rank's side of the decision.
struct RankOffers {
  int rank;
  std::span<const PortOffer> offers;
};

struct OfferPair {
  std::size_t mine;    // index into the offers of the first argument
  std::size_t theirs;  // and of the second
};

bool reachable(const PortOffer &a, const PortOffer &b);
// The pair that ranks `mine` and `theirs` use: the software device where both share it, else the pair nearest to both
// processes, on what looks like one subnet, of equal names. The error lists what each rank offered.
Result<OfferPair> agree(const RankOffers &mine, const RankOffers &theirs);

// Whether TUTTI_DEVICE asks for this offer: "auto", "software", "rxe0", "mlx5_0:1".
bool wanted(std::string_view device, const PortOffer &offer);

}  // namespace tutti::verbs

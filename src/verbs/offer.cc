// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/offer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <tuple>

#include "verbs/gid.h"
#include "verbs/pkey.h"

namespace tutti::verbs {
namespace {

constexpr std::uint16_t kDefaultPkey = 0xffff;

std::string_view text(const char *bytes, std::size_t capacity) { return {bytes, strnlen(bytes, capacity)}; }
std::string_view host(const PortOffer &offer) { return text(offer.host, sizeof offer.host); }
std::string_view device(const PortOffer &offer) { return text(offer.device, sizeof offer.device); }
std::string_view interface(const PortOffer &offer) { return text(offer.interface, sizeof offer.interface); }

// Leading bits that two addresses share, counted no further than networks are usually divided: beyond that they
// differ by host, which says nothing about reachability.
int shared_prefix(const ibv_gid &a, const ibv_gid &b) {
  const int most = gid_scope(a) == GidScope::ipv4 ? 96 + 24 : 64;
  int bits = 0;
  for (int byte = 0; byte < 16; ++byte) {
    const auto difference = static_cast<std::uint8_t>(a.raw[byte] ^ b.raw[byte]);
    bits += std::countl_zero(difference);
    if (difference != 0) break;
  }
  return std::min(bits, most);
}

// Smaller is better. Symmetric in what it says of the pair; the positions at its end break ties the same way on both
// ranks because `low` is always the lower rank's offer.
auto badness(const PortOffer &low, std::size_t low_index, const PortOffer &high, std::size_t high_index) {
  return std::make_tuple(low.software() ? 0 : 1, low.far + high.far, -shared_prefix(low.gid, high.gid),
                         device(low) == device(high) && low.port == high.port ? 0 : 1, low_index + high_index,
                         low_index);
}

std::string list(std::span<const PortOffer> offers) {
  std::string result;
  for (const PortOffer &offer : offers) result += (result.empty() ? "" : ", ") + offer_text(offer);
  return result.empty() ? "no usable port" : result;
}

}  // namespace

std::string offer_name(const PortOffer &offer) { return fmt::format("{}:{}", device(offer), offer.port); }

int mtu_bytes(std::uint8_t mtu) { return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128 << mtu : 0; }

std::string offer_text(const PortOffer &offer) {
  const std::string address =
      offer.software() ? fmt::format("software{}{}", offer.interface[0] != '\0' ? ", subnet " : "", interface(offer))
      : offer.link_layer == IBV_LINK_LAYER_INFINIBAND
          ? fmt::format("InfiniBand, LID {}, {}", offer.lid, gid_text(offer.gid))
          : fmt::format("{} {}", gid_type_name(offer.type()), gid_text(offer.gid));
  // Every port is in the default partition unless somebody made others.
  const std::string partition =
      offer.pkey == 0 || offer.pkey == kDefaultPkey ? "" : fmt::format(", P_Key {:#06x}", offer.pkey);
  return fmt::format("{} ({}, MTU {}{}, host {})", offer_name(offer), address, mtu_bytes(offer.active_mtu), partition,
                     host(offer));
}

bool reachable(const PortOffer &a, const PortOffer &b) {
  if (a.kind != b.kind) return false;
  if (a.pkey != 0 && b.pkey != 0 && !same_partition(a.pkey, b.pkey)) return false;
  if (a.software()) return host(a) == host(b) && interface(a) == interface(b);
  if (a.link_layer != b.link_layer) return false;
  if (a.link_layer == IBV_LINK_LAYER_INFINIBAND) return a.gid.global.subnet_prefix == b.gid.global.subnet_prefix;
  // Whether a router joins two IP networks is not known here, so any two addresses of one scope may reach each other.
  return a.gid_type == b.gid_type && gid_scope(a.gid) == gid_scope(b.gid);
}

Result<OfferPair> agree(const RankOffers &mine, const RankOffers &theirs) {
  const bool mine_is_low = mine.rank < theirs.rank;
  const RankOffers &low = mine_is_low ? mine : theirs, &high = mine_is_low ? theirs : mine;
  std::optional<OfferPair> best;  // .mine indexes low, .theirs indexes high
  for (std::size_t i = 0; i < low.offers.size(); ++i) {
    for (std::size_t j = 0; j < high.offers.size(); ++j) {
      if (!reachable(low.offers[i], high.offers[j])) continue;
      if (!best || badness(low.offers[i], i, high.offers[j], j) <
                       badness(low.offers[best->mine], best->mine, high.offers[best->theirs], best->theirs))
        best = OfferPair{i, j};
    }
  }
  if (!best)
    return fail(Code::device,
                "ranks {} and {} have no ports that reach each other: rank {} offers {}; rank {} offers {}. Ports must "
                "be ACTIVE, of one link layer, on one network and in one partition; TUTTI_DEVICE names the one to use",
                low.rank, high.rank, low.rank, list(low.offers), high.rank, list(high.offers));
  if (!mine_is_low) std::swap(best->mine, best->theirs);
  return *best;
}

bool wanted(std::string_view name, const PortOffer &offer) {
  if (name.empty() || name == "auto") return true;
  if (name == "software") return offer.software();
  return name == device(offer) || name == offer_name(offer);
}

}  // namespace tutti::verbs

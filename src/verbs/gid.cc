// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace tutti::verbs {
namespace {

constexpr std::uint32_t kIndexes = 256;  // sgid_index of an address handle has eight bits

}  // namespace

GidScope gid_scope(const ibv_gid &gid) {
  static constexpr std::uint8_t kIpv4Mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};  // RFC 4291, 2.5.5.2
  const std::uint8_t *raw = gid.raw;
  if (std::memcmp(raw, kIpv4Mapped, sizeof kIpv4Mapped) == 0) {
    const std::uint8_t *ip = raw + sizeof kIpv4Mapped;
    if (ip[0] == 0 || ip[0] == 127 || ip[0] >= 224) return GidScope::unusable;  // this host, loopback, multicast
    return ip[0] == 169 && ip[1] == 254 ? GidScope::ipv4_link_local : GidScope::ipv4;
  }
  if (raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80) return GidScope::ipv6_link_local;
  if (raw[0] == 0xff) return GidScope::unusable;  // multicast
  const bool top_zero = std::all_of(raw, raw + 8, [](std::uint8_t byte) { return byte == 0; });
  return top_zero ? GidScope::unusable : GidScope::ipv6;  // "::", "::1" and other reserved ones
}

const char *scope_name(GidScope scope) {
  switch (scope) {
    case GidScope::ipv4: return "IPv4";
    case GidScope::ipv6: return "IPv6";
    case GidScope::ipv4_link_local: return "link-local IPv4";
    case GidScope::ipv6_link_local: return "link-local IPv6";
    case GidScope::unusable: return "unusable";
  }
  return "unknown";
}

const char *gid_type_name(GidEntry::Type type) {
  switch (type) {
    case GidEntry::Type::infiniband: return "InfiniBand";
    case GidEntry::Type::roce_v1: return "RoCE v1";
    case GidEntry::Type::roce_v2: return "RoCE v2";
  }
  return "unknown";
}

std::string gid_text(const ibv_gid &gid) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

std::string gid_table_text(std::span<const GidEntry> table) {
  std::string text;
  for (const GidEntry &entry : table) {
    text += fmt::format("{}{}: {} {}", text.empty() ? "" : ", ", entry.index, gid_type_name(entry.type),
                        gid_text(entry.gid));
    if (entry.interface[0] != '\0') text += fmt::format(" ({})", entry.interface);
  }
  return text.empty() ? "nothing" : text;
}

Result<GidEntry> choose_gid(std::span<const GidEntry> table, int link_layer, std::int64_t override_index) {
  if (override_index >= kIndexes)
    return fail(Code::device, "TUTTI_GID_INDEX={} cannot be used: a queue pair names the first {} entries only",
                override_index, kIndexes);
  if (override_index >= 0) {
    const auto found =
        std::ranges::find_if(table, [&](const GidEntry &entry) { return entry.index == override_index; });
    if (found != table.end()) return *found;
    return fail(Code::device, "TUTTI_GID_INDEX={} is not in the port's GID table, which holds {}", override_index,
                gid_table_text(table));
  }
  const GidEntry *best = nullptr;
  for (const GidEntry &entry : table) {
    if (entry.index >= kIndexes) continue;
    if (link_layer == IBV_LINK_LAYER_INFINIBAND) {
      // The first entry of an InfiniBand table is the port's own; the others are aliases (virtual functions).
      if (best == nullptr || entry.index < best->index) best = &entry;
      continue;
    }
    const GidScope scope = gid_scope(entry.gid);
    if (entry.type != GidEntry::Type::roce_v2 || scope == GidScope::unusable) continue;
    if (best == nullptr || scope < gid_scope(best->gid) || (scope == gid_scope(best->gid) && entry.index < best->index))
      best = &entry;
  }
  if (best != nullptr) return *best;
  if (link_layer == IBV_LINK_LAYER_INFINIBAND) return fail(Code::device, "the port's GID table is empty");
  return fail(Code::device,
              "no usable RoCE v2 address in the port's GID table, which holds {}: give its network interface an IP "
              "address, or force an entry with TUTTI_GID_INDEX",
              gid_table_text(table));
}

}  // namespace tutti::verbs

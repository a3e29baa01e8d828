// SPDX-License-Identifier: BSD-3-Clause
//
// Which address of a port's GID table to use. Pure functions of the table.
//
// Invariant: index 0 is never a fall-back. Without an override a RoCE port uses RoCE v2 only, IPv4 before global IPv6
// before link-local ones, the lowest index among equals.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "verbs/api.h"

namespace tutti::verbs {

// In order of preference. Addresses of different scopes do not reach each other.
enum class GidScope : std::uint8_t { ipv4, ipv6, ipv4_link_local, ipv6_link_local, unusable };

GidScope gid_scope(const ibv_gid &gid);
const char *scope_name(GidScope scope);
const char *gid_type_name(GidEntry::Type type);
std::string gid_text(const ibv_gid &gid);
// "1: RoCE v2 ::ffff:10.0.0.1 (eth0), ...", or "nothing".
std::string gid_table_text(std::span<const GidEntry> table);

// `link_layer` is IBV_LINK_LAYER_*; `override_index` is TUTTI_GID_INDEX, -1 for none. Errors say what the table holds.
Result<GidEntry> choose_gid(std::span<const GidEntry> table, int link_layer, std::int64_t override_index);

}  // namespace tutti::verbs

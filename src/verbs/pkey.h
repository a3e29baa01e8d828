// SPDX-License-Identifier: BSD-3-Clause
//
// Which partition key of a port's table to use. Keys are named by value, since the subnet manager may order tables
// differently on every host. Pure functions of the table.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "verbs/api.h"

namespace tutti::verbs {

// Bit 15: full member of the partition that the other bits name. Two limited members do not talk.
inline constexpr std::uint16_t kFullMember = 0x8000;

struct PkeyEntry {
  std::uint16_t value = 0;
  std::uint16_t index = 0;
};

bool same_partition(std::uint16_t a, std::uint16_t b);
// "0x8001[3] limited"; "0xffff[0], 0x8001[3]", or "nothing".
std::string pkey_text(const PkeyEntry &entry);
std::string pkey_table_text(std::span<const PkeyEntry> table);

// `wanted` is TUTTI_PKEY: -1 takes the first row (value 0: not known, where there is none); a key with its membership
// bit takes exactly that one; one without it takes the partition's full membership, else the limited one. Errors say
// what the table holds.
Result<PkeyEntry> choose_pkey(std::span<const PkeyEntry> table, std::int64_t wanted);

}  // namespace tutti::verbs

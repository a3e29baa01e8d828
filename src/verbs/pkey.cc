// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/pkey.h"

#include <algorithm>

namespace tutti::verbs {

bool same_partition(std::uint16_t a, std::uint16_t b) {
  return ((a ^ b) & ~kFullMember) == 0 && ((a | b) & kFullMember) != 0;
}

std::string pkey_text(const PkeyEntry &entry) {
  return fmt::format("{:#06x}[{}]{}", entry.value, entry.index, (entry.value & kFullMember) != 0 ? "" : " limited");
}

std::string pkey_table_text(std::span<const PkeyEntry> table) {
  std::string text;
  for (const PkeyEntry &entry : table) text += (text.empty() ? "" : ", ") + pkey_text(entry);
  return text.empty() ? "nothing" : text;
}

Result<PkeyEntry> choose_pkey(std::span<const PkeyEntry> table, std::int64_t wanted) {
  // Where nobody asks for a key, a table that cannot be read (no sysfs) is no obstacle.
  if (wanted < 0) return table.empty() ? PkeyEntry{} : table.front();
  const auto find = [&](std::int64_t value) {
    return std::ranges::find_if(table, [&](const PkeyEntry &entry) { return entry.value == value; });
  };
  auto found = find(wanted);
  if ((wanted & kFullMember) == 0) {
    const auto full = find(wanted | kFullMember);
    if (full != table.end()) found = full;
  }
  if (found != table.end()) return *found;
  return fail(Code::device, "TUTTI_PKEY={:#06x} is not in the port's P_Key table, which holds {}", wanted,
              pkey_table_text(table));
}

}  // namespace tutti::verbs

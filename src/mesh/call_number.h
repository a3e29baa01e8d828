// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers of a communicator's calls: 31 bits, from the last of them back to 0.
#pragma once

#include <cstdint>

namespace tutti::mesh {

inline constexpr std::uint32_t kCallMask = 0x7fff'ffff;
constexpr std::uint32_t following(std::uint32_t call) { return (call + 1) & kCallMask; }
// How far `to` is ahead of `from`; behind it, it is more than half of all.
constexpr std::uint32_t distance(std::uint32_t from, std::uint32_t to) { return (to - from) & kCallMask; }
constexpr bool is_ahead(std::uint32_t distance) { return distance <= kCallMask / 2; }

}  // namespace tutti::mesh

// SPDX-License-Identifier: BSD-3-Clause
//
// Where a rank listens, as the fixed-size bytes that go through the bootstrap: one port, and up to seven addresses,
// best first. A rank that does not know which of its networks the others are on tells all, and they try all: the keyed
// hello and the rank numbers that follow it tell a wrong host from the right one.
#pragma once

#include <span>
#include <vector>

#include "control/control.h"
#include "net/endpoint.h"

namespace tutti::control {

inline constexpr std::size_t kMostAddresses = 7;  // 3 + 7 * 17 bytes fit into an Address

Address encode_address(int port, std::span<const net::Endpoint> endpoints);
// Empty if it is not what encode_address makes.
std::vector<net::Endpoint> decode_address(const Address &address);

}  // namespace tutti::control

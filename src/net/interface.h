// SPDX-License-Identifier: BSD-3-Clause
//
// Which of this host's addresses serve the job: TUTTI_INTERFACE against what the host has. Pure but for
// local_addresses().
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/endpoint.h"

namespace tutti::net {

struct LocalAddress {
  std::string interface;
  Endpoint endpoint;  // port 0
};

// Addresses of the interfaces that are up.
Result<std::vector<LocalAddress>> local_addresses();

// The addresses that a rule accepts, best first (IPv4 before IPv6, otherwise the host's order); never none. The rule is
// a comma-separated list of interface names, addresses and prefixes (10.0.0.0/8), or, after ^, of those to leave out.
// An empty rule takes all but loopback and link-local ones, and loopback only if there is nothing else. Errors (config)
// say what is wrong with the rule and what the host has.
Result<std::vector<Endpoint>> select_addresses(std::string_view rule, std::span<const LocalAddress> available);

}  // namespace tutti::net

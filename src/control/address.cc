// SPDX-License-Identifier: BSD-3-Clause
#include "control/address.h"

#include <algorithm>

namespace tutti::control {
namespace {

constexpr std::size_t kHeaderBytes = 3, kEntryBytes = 17;
static_assert(kHeaderBytes + kMostAddresses * kEntryBytes <= sizeof(Address));

}  // namespace

Address encode_address(int port, std::span<const net::Endpoint> endpoints) {
  Address address{};
  const std::size_t count = std::min(endpoints.size(), kMostAddresses);
  address.bytes[0] = static_cast<std::uint8_t>(port);
  address.bytes[1] = static_cast<std::uint8_t>(port >> 8);
  address.bytes[2] = static_cast<std::uint8_t>(count);
  std::uint8_t *entry = address.bytes + kHeaderBytes;
  for (std::size_t i = 0; i < count; ++i, entry += kEntryBytes) {
    entry[0] = endpoints[i].v6 ? 6 : 4;
    std::ranges::copy(endpoints[i].bytes, entry + 1);
  }
  return address;
}

std::vector<net::Endpoint> decode_address(const Address &address) {
  const int port = address.bytes[0] | address.bytes[1] << 8;
  const std::size_t count = address.bytes[2];
  if (port == 0 || count > kMostAddresses) return {};
  std::vector<net::Endpoint> endpoints;
  const std::uint8_t *entry = address.bytes + kHeaderBytes;
  for (std::size_t i = 0; i < count; ++i, entry += kEntryBytes) {
    if (entry[0] != 4 && entry[0] != 6) return {};
    net::Endpoint endpoint{.v6 = entry[0] == 6};
    std::copy_n(entry + 1, endpoint.bytes.size(), endpoint.bytes.begin());
    endpoints.push_back(endpoint.with_port(port));
  }
  return endpoints;
}

}  // namespace tutti::control

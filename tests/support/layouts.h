// SPDX-License-Identifier: BSD-3-Clause
//
// How ranks may lie on hosts: for tests of what follows from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tutti::test {

struct Layout {
  std::string name;
  std::vector<std::int32_t> hosts;  // of each rank
};

// Nothing known, one host, blocks, a rest, round robin, unequal hosts, and no order at all; names of hosts in any
// order.
inline std::vector<Layout> layouts(std::int32_t ranks) {
  std::vector<Layout> all = {{"unknown", {}}};
  const auto add = [&](std::string name, const auto &host_of) {
    std::vector<std::int32_t> hosts;
    for (std::int32_t rank = 0; rank < ranks; ++rank) hosts.push_back(host_of(rank));
    for (const Layout &known : all)
      if (known.hosts == hosts) return;
    all.push_back({std::move(name), std::move(hosts)});
  };
  const auto half = std::max(1, (ranks + 1) / 2);
  add("one host", [](std::int32_t) { return 7; });
  for (const std::int32_t block : {2, 3, 4, 7, half})
    add("blocks of " + std::to_string(block), [&](std::int32_t rank) { return 100 - rank / block; });
  for (const std::int32_t hosts : {2, 3, half})
    add("round robin over " + std::to_string(hosts), [&](std::int32_t rank) { return rank % hosts; });
  add("1, 2, 3...", [](std::int32_t rank) {
    std::int32_t host = 0;
    for (std::int32_t left = rank; left > host; ++host) left -= host + 1;
    return host;
  });
  add("all but the last", [&](std::int32_t rank) { return rank == ranks - 1 ? 1 : 0; });
  add("all but the first", [&](std::int32_t rank) { return rank == 0 ? 1 : 0; });
  std::mt19937 random(static_cast<std::uint32_t>(ranks));
  add("at random", [&](std::int32_t) { return std::int32_t(random() % std::uint32_t(1 + ranks / 3)); });
  return all;
}

}  // namespace tutti::test

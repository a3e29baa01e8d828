// SPDX-License-Identifier: BSD-3-Clause
#include "net/interface.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>

#include "base/config.h"

namespace tutti::net {
namespace {

struct Item {
  std::string name;                 // interface name, if no address
  std::optional<Endpoint> address;  // with `bits` leading bits that count
  int bits = 0;

  bool matches(const LocalAddress &local) const {
    if (!address) return local.interface == name;
    if (address->v6 != local.endpoint.v6) return false;
    for (int bit = 0; bit < bits; ++bit) {
      const auto byte = static_cast<std::size_t>(bit / 8);
      if (((address->bytes[byte] ^ local.endpoint.bytes[byte]) >> (7 - bit % 8)) & 1) return false;
    }
    return true;
  }
};

std::string inventory(std::span<const LocalAddress> available) {
  std::string text;
  for (const LocalAddress &local : available)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", local.interface, local.endpoint.address_text());
  return text.empty() ? "none" : text;
}

Result<Item> parse_item(std::string_view rule, std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    Item item{.name = std::string(text), .address = parse_address(text)};
    if (item.address) item.bits = item.address->v6 ? 128 : 32;
    const bool name_possible = !text.empty() && text.size() < IFNAMSIZ &&
                               std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 127; });
    if (!item.address && !name_possible)
      return fail(Code::config, "TUTTI_INTERFACE={} is not accepted: '{}' is no interface name, address or prefix",
                  rule, text);
    return item;
  }
  Item item{.address = parse_address(text.substr(0, slash))};
  const std::optional<std::int64_t> bits = parse_integer(text.substr(slash + 1));
  const int most = item.address && item.address->v6 ? 128 : 32;
  if (!item.address || !bits || *bits < 0 || *bits > most)
    return fail(Code::config, "TUTTI_INTERFACE={} is not accepted: '{}' is no prefix (such as 10.0.0.0/8 or fd00::/64)",
                rule, text);
  item.bits = static_cast<int>(*bits);
  return item;
}

Result<std::vector<Item>> parse_items(std::string_view rule, std::string_view list) {
  std::vector<Item> items;
  for (;;) {
    const std::size_t comma = list.find(',');
    TUTTI_TRY(Item item, parse_item(rule, list.substr(0, comma)));
    items.push_back(std::move(item));
    if (comma == std::string_view::npos) return items;
    list.remove_prefix(comma + 1);
  }
}

std::vector<Endpoint> best_first(std::vector<Endpoint> endpoints) {
  std::ranges::stable_sort(endpoints, {}, [](const Endpoint &e) { return e.v6; });
  return endpoints;
}

// Without a rule, or what an exclusion leaves: loopback only if there is nothing else.
std::vector<Endpoint> usual(std::span<const LocalAddress> available, std::span<const Item> excluded) {
  std::vector<Endpoint> network, loopback;
  for (const LocalAddress &local : available) {
    if (local.endpoint.link_local()) continue;
    if (std::ranges::any_of(excluded, [&](const Item &item) { return item.matches(local); })) continue;
    (local.endpoint.loopback() ? loopback : network).push_back(local.endpoint);
  }
  return best_first(network.empty() ? loopback : network);
}

}  // namespace

Result<std::vector<LocalAddress>> local_addresses() {
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0) return fail_errno(Code::system, errno, "the list of network interfaces");
  std::vector<LocalAddress> addresses;
  for (const ifaddrs *entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0) continue;
    if (const auto endpoint = from_socket_address(entry->ifa_addr))
      addresses.push_back({entry->ifa_name, endpoint->with_port(0)});
  }
  freeifaddrs(list);
  return addresses;
}

Result<std::vector<Endpoint>> select_addresses(std::string_view rule, std::span<const LocalAddress> available) {
  const bool exclude = rule.starts_with('^');
  std::vector<Item> items;
  if (!rule.empty()) {
    TUTTI_TRY(items, parse_items(rule, rule.substr(exclude ? 1 : 0)));
  }
  if (items.empty() || exclude) {
    std::vector<Endpoint> left = usual(available, items);
    if (!left.empty()) return left;
    return fail(Code::config, "TUTTI_INTERFACE={} leaves no address; this host has: {}", rule, inventory(available));
  }
  std::vector<Endpoint> accepted;
  for (const LocalAddress &local : available)
    if (!local.endpoint.needs_interface() &&
        std::ranges::any_of(items, [&](const Item &item) { return item.matches(local); }))
      accepted.push_back(local.endpoint);
  if (accepted.empty())
    return fail(Code::config, "TUTTI_INTERFACE={} matches no interface that is up; this host has: {}", rule,
                inventory(available));
  return best_first(std::move(accepted));
}

}  // namespace tutti::net

// SPDX-License-Identifier: BSD-3-Clause
//
// How ranks lie on hosts. Hosts are numbered in the order of their first ranks, members of a host in the order of
// ranks, so all ranks number alike. Where nobody knows, every rank is a host by itself.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "collectives/schedule.h"

namespace tutti::collectives {

class Hosts {
 public:
  explicit Hosts(const Parameters &parameters) : rank_(parameters.rank), root_(parameters.root) {
    std::map<std::int32_t, std::int32_t> numbers;
    for (std::int32_t rank = 0; rank < parameters.ranks; ++rank) {
      const std::int32_t name = parameters.hosts.empty() ? rank : parameters.hosts[std::size_t(rank)];
      const auto [number, is_new] = numbers.try_emplace(name, std::int32_t(members_.size()));
      if (is_new) members_.emplace_back();
      if (rank == rank_) host_ = number->second, local_ = std::int32_t(members_[std::size_t(host_)].size());
      if (rank == root_) root_host_ = number->second;
      members_[std::size_t(number->second)].push_back(rank);
    }
  }

  std::int32_t count() const { return std::int32_t(members_.size()); }
  // The host of this rank, and its place there.
  std::int32_t mine() const { return host_; }
  std::int32_t local() const { return local_; }
  std::int32_t root_host() const { return root_host_; }
  const std::vector<std::int32_t> &members(std::int32_t host) const { return members_[std::size_t(host)]; }
  const std::vector<std::int32_t> &members() const { return members(host_); }
  // Who speaks for a host: its first rank; the root for its own.
  std::int32_t leader(std::int32_t host) const { return host == root_host_ ? root_ : members(host).front(); }
  // The first rank of each.
  std::vector<std::int32_t> first_ranks() const {
    std::vector<std::int32_t> ranks;
    ranks.reserve(members_.size());
    for (const std::vector<std::int32_t> &host : members_) ranks.push_back(host.front());
    return ranks;
  }
  // As many ranks as every host has.
  std::int32_t lanes() const {
    std::size_t least = members_.front().size();
    for (const std::vector<std::int32_t> &ranks : members_) least = std::min(least, ranks.size());
    return std::int32_t(least);
  }

 private:
  std::int32_t rank_, root_, host_ = 0, local_ = 0, root_host_ = 0;
  std::vector<std::vector<std::int32_t>> members_;
};

// How many hosts there are; ranks of which nobody knows the host count as one each.
std::int32_t count_hosts(std::span<const std::int32_t> hosts);
// Whether the ranks of each host follow one another.
bool hosts_are_runs(std::span<const std::int32_t> hosts);

}  // namespace tutti::collectives

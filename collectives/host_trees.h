// SPDX-License-Identifier: BSD-3-Clause
//
// A k-nomial tree over the leaders of all hosts, with the root at its top, and one in each host with its leader at the
// top.
#pragma once

#include "collectives/hosts.h"
#include "collectives/knomial.h"

namespace tutti::collectives {

class HostTrees {
 public:
  HostTrees(const Hosts &hosts, const Parameters &parameters)
      : hosts_(hosts),
        across_({.ranks = hosts.count(), .rank = hosts.mine(), .root = hosts.root_host(), .radix = parameters.radix}),
        inside_({.ranks = std::int32_t(hosts.members().size()),
                 .rank = hosts.local(),
                 .root = leader_place(hosts),
                 .radix = parameters.radix}) {}

  bool leads() const { return inside_.distance() == 0; }
  // The real rank above this one; -1 for the root.
  std::int32_t parent() const {
    if (!leads()) return hosts_.members()[std::size_t(inside_.real(inside_.parent()))];
    return across_.distance() == 0 ? -1 : hosts_.leader(across_.real(across_.parent()));
  }
  // Calls use(real rank), those with the largest subtrees first.
  template <class Use>
  void children_across(const Use &use) const {
    if (!leads()) return;
    across_.children_largest_first([&](std::int64_t child, std::uint32_t) { use(hosts_.leader(across_.real(child))); });
  }
  template <class Use>
  void children_inside(const Use &use) const {
    inside_.children_largest_first(
        [&](std::int64_t child, std::uint32_t) { use(hosts_.members()[std::size_t(inside_.real(child))]); });
  }
  // The same, the nearest and smallest first.
  template <class Use>
  void inside_then_across(const Use &use) const {
    inside_.children(
        [&](std::int64_t child, std::uint32_t) { use(hosts_.members()[std::size_t(inside_.real(child))]); });
    if (leads()) across_.children([&](std::int64_t child, std::uint32_t) { use(hosts_.leader(across_.real(child))); });
  }

 private:
  static std::int32_t leader_place(const Hosts &hosts) {
    const std::vector<std::int32_t> &locals = hosts.members();
    return std::int32_t(std::find(locals.begin(), locals.end(), hosts.leader(hosts.mine())) - locals.begin());
  }
  const Hosts &hosts_;
  Knomial across_, inside_;
};

}  // namespace tutti::collectives

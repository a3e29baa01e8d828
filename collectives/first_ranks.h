// SPDX-License-Identifier: BSD-3-Clause
//
// Small vectors by host: the first rank of each host speaks for all of its ranks.
#pragma once

#include <vector>

#include "collectives/builder.h"
#include "collectives/hosts.h"

namespace tutti::collectives {

// The ranks of a host send what they have to its first one, which reduces it in `collected` and gets its answer in the
// output: among the first ranks of all hosts, where there are several, by across(firsts, what it has). Then all get it.
template <class Across>
void through_first_ranks(Builder &builder, const Hosts &hosts, Range own, Range collected, const Across &across) {
  const std::vector<std::int32_t> &locals = hosts.members();
  const Range output = builder.whole(Buffer::output);
  if (hosts.local() != 0) {
    builder.send(locals.front(), own);
    builder.recv(locals.front(), output);
    return;
  }
  Range current = own;
  for (std::size_t local = 1; local < locals.size(); ++local) {
    builder.recv_reduce(locals[local], Side::right, current, collected);
    current = collected;
  }
  if (hosts.count() > 1) across(hosts.first_ranks(), current);
  for (std::size_t local = 1; local < locals.size(); ++local) builder.send(locals[local], output);
}

}  // namespace tutti::collectives

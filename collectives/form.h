// SPDX-License-Identifier: BSD-3-Clause
//
// What each collective looks like from one rank, whatever the algorithm: how its buffers are cut, which of them this
// rank has, and what in place means. One row a collective, which builder, verifier and executor all follow.
#pragma once

#include "collectives/schedule.h"

namespace tutti::collectives {

// What a side of a collective consists of.
enum class Extent : std::uint8_t {
  none,           // no such buffer
  vector,         // all blocks
  own,            // the block of this rank alone
  vector_at_root  // all blocks on the root, nothing elsewhere
};

struct Form {
  Collective collective;
  std::string_view name;
  Partition partition;
  Extent input, output;
  InPlace in_place;  // what a caller's in place means
  bool rooted;
  bool reduces;     // has an operator
  bool displaced;   // whole vectors have gaps or any order: a range there is one block
  bool pairs_only;  // two ranks know of each other's counts only what passes between them
};

const Form &form_of(Collective collective);

// Blocks of a side of `extent` on this rank, if whole vectors have `blocks`.
std::uint32_t blocks_of(Extent extent, const Parameters &parameters, std::uint32_t blocks);
// Whether this rank's buffers are in place: where the root alone has two, only there.
InPlace in_place_of(const Parameters &parameters);

}  // namespace tutti::collectives

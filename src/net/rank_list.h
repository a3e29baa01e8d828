// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks in a sentence: "rank 3", "ranks 1, 4 and 5", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 120 more". Errors that name who
// is missing use it, so that they read the same everywhere.
#pragma once

#include <span>
#include <string>

namespace tutti::net {

std::string rank_list(std::span<const int> ranks);

}  // namespace tutti::net

// SPDX-License-Identifier: BSD-3-Clause
//
// What a rank tells of its world at the end (TUTTI_STATS): one line, and a table of the peers with whom not all went
// smoothly.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "mesh/mesh.h"

namespace tutti::api {

struct Story {
  int rank = 0, ranks = 1;
  std::int64_t lasted_ns = 0;
  mesh::Statistics total;
  std::span<const mesh::LinkView> links;
};

// Lines that end with a newline each, and begin with the rank: those of several ranks may be mixed.
std::string statistics_text(const Story &story);

}  // namespace tutti::api

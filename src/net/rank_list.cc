// SPDX-License-Identifier: BSD-3-Clause
#include "net/rank_list.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::net {

std::string rank_list(std::span<const int> ranks) {
  constexpr std::size_t kMostNamed = 8;  // keeps the line readable when half of a large job is missing
  const std::size_t named = std::min(ranks.size(), kMostNamed);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (ranks.size() > named) text += fmt::format(" and {} more", ranks.size() - named);
  return text;
}

}  // namespace tutti::net

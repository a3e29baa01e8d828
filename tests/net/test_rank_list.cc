// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <vector>

#include "net/rank_list.h"

namespace tutti::net {
namespace {

TEST(RankList, ReadsAsEnglishAndStaysShort) {
  EXPECT_EQ(rank_list(std::vector{3}), "rank 3");
  EXPECT_EQ(rank_list(std::vector{3, 5}), "ranks 3 and 5");
  EXPECT_EQ(rank_list(std::vector{1, 2, 9}), "ranks 1, 2 and 9");
  EXPECT_EQ(rank_list(std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

}  // namespace
}  // namespace tutti::net

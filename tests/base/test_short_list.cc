// SPDX-License-Identifier: BSD-3-Clause
#include "base/short_list.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

namespace tutti {
namespace {

ShortList<std::size_t, 4> counted_to(std::size_t count) {
  ShortList<std::size_t, 4> list(count);
  for (std::size_t i = 0; i < count; ++i) list.push_back(i);
  return list;
}

TEST(ShortList, HoldsWhatWasPutInFewOrMany) {
  for (const std::size_t count : {0, 1, 4, 5, 100}) {
    const auto list = counted_to(count);
    ASSERT_EQ(list.size(), count);
    EXPECT_EQ(list.empty(), count == 0);
    EXPECT_EQ(std::accumulate(list.begin(), list.end(), std::size_t{0}), count == 0 ? 0 : count * (count - 1) / 2);
  }
}

TEST(ShortList, MovesWithWhatItHolds) {
  for (const std::size_t count : {3, 50}) {
    auto list = counted_to(count);
    const auto moved = std::move(list);
    ASSERT_EQ(moved.size(), count);
    EXPECT_EQ(moved[count - 1], count - 1);
  }
}

TEST(ShortListDeath, MoreThanWasSaidIsRefused) {
  auto list = counted_to(5);
  EXPECT_DEATH(list.push_back(5), "size_ < most_");
}

}  // namespace
}  // namespace tutti

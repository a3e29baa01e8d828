// SPDX-License-Identifier: BSD-3-Clause
//
// Positions in buffers that no test has the memory for: beyond 2^31 elements and 2^32 bytes.
#include <gtest/gtest.h>

#include <vector>

#include "exec/layout.h"

namespace tutti::exec {
namespace {

constexpr std::uint64_t kMany = (std::uint64_t{1} << 40) + 7;

TEST(Layout, EvenBlocksOfManyElements) {
  Layout layout;
  layout.cut_evenly(5, kMany);  // 2^40 + 7 = 5 * 219902325556 + 3
  const std::uint64_t base = kMany / 5;
  ASSERT_EQ(kMany % 5, 3u);
  std::uint64_t at = 0;
  for (std::uint32_t block = 0; block < 5; ++block) {
    EXPECT_EQ(layout.begin(block), at);
    EXPECT_EQ(layout.elements(block, 1), base + (block < 3 ? 1 : 0));
    at += layout.elements(block, 1);
  }
  EXPECT_EQ(at, kMany);
  EXPECT_EQ(layout.elements(1, 4), kMany - base - 1);
  EXPECT_EQ(layout.begin(5 + 2), kMany + 2 * (base + 1)) << "of the second vector of scratch";
}

TEST(Layout, EqualBlocksOfManyElements) {
  Layout layout;
  layout.cut_equally(3, kMany);
  EXPECT_EQ(layout.vector(), 3 * kMany);
  EXPECT_EQ(layout.begin(2), 2 * kMany);
  EXPECT_EQ(layout.elements(1, 2), 2 * kMany);
}

TEST(Layout, ListedBlocksOfManyElements) {
  const std::vector<std::size_t> counts = {kMany, 0, 5}, displacements = {3 * kMany, 17, kMany - 5};
  Layout layout;
  layout.list(3, {counts.data(), displacements.data()});
  EXPECT_EQ(layout.begin(0), 3 * kMany);
  EXPECT_EQ(layout.begin(2), kMany - 5);
  layout.list(3, {counts.data()});
  EXPECT_EQ(layout.begin(2), kMany);
  EXPECT_EQ(layout.elements(0, 3), kMany + 5);
}

}  // namespace
}  // namespace tutti::exec

// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "mesh/copy_choice.h"

namespace tutti::mesh {
namespace {

constexpr std::size_t kBytes = 64 << 10;

// Copies in a world where the two ways take so long a byte; how many of them went past the caches.
int streamed(CopyChoice &choice, int copies, std::uint64_t plain, std::uint64_t past) {
  int count = 0;
  for (int i = 0; i < copies; ++i) {
    const CopyWay way = choice.next();
    choice.took(way, kBytes, kBytes * (way == CopyWay::plain ? plain : past));
    count += way == CopyWay::streamed;
  }
  return count;
}

TEST(CopyChoice, BothWaysAreTriedAtFirst) {
  CopyChoice choice;
  EXPECT_EQ(streamed(choice, 8, 10, 10), 4);
}

TEST(CopyChoice, PlainUnlessTheOtherIsMuchQuicker) {
  CopyChoice near, little;
  streamed(near, 8, 10, 20);
  EXPECT_EQ(near.best(), CopyWay::plain);
  streamed(little, 8, 10, 8);
  EXPECT_EQ(little.best(), CopyWay::plain);
  EXPECT_EQ(streamed(near, 1000, 10, 20), 0);
}

TEST(CopyChoice, PastTheCachesBetweenCoresFarApart) {
  CopyChoice choice;
  streamed(choice, 8, 40, 10);
  EXPECT_EQ(choice.best(), CopyWay::streamed);
  EXPECT_EQ(streamed(choice, 1000, 40, 10), 1000);
}

TEST(CopyChoice, CoresThatMoveAreNoticed) {
  CopyChoice choice;
  streamed(choice, 100'000, 40, 10);
  EXPECT_GT(streamed(choice, 10'000, 40, 10), 9980) << "and the other way is hardly tried meanwhile";
  streamed(choice, 100'000, 10, 20);
  EXPECT_EQ(choice.best(), CopyWay::plain);
  streamed(choice, 100'000, 40, 10);
  EXPECT_EQ(choice.best(), CopyWay::streamed);
}

TEST(CopyChoice, AnInterruptedCopyChangesNothing) {
  CopyChoice choice;
  streamed(choice, 8, 10, 20);
  choice.took(CopyWay::plain, kBytes, kBytes * 200);
  streamed(choice, 100, 10, 20);
  EXPECT_EQ(choice.best(), CopyWay::plain);
}

}  // namespace
}  // namespace tutti::mesh

// SPDX-License-Identifier: BSD-3-Clause
//
// How many credits and chunks a mesh of a given size starts with, and what reduces them.
#include <gtest/gtest.h>

#include <bit>

#include "link/link.h"

namespace tutti::link {
namespace {

LimitInputs inputs(int ranks) { return {.ranks = ranks, .chunk_bytes = 64 << 10, .message_bytes = 4096 + 24}; }

int total(const Limits &limits) { return limits.credits[0] + limits.credits[1] + limits.credits[2]; }

TEST(LimitsFor, FewerCreditsAPeerInLargerMeshes) {
  EXPECT_EQ(limits_for(inputs(2)).credits, (std::array<std::uint16_t, 3>{64, 8, 4}));
  EXPECT_EQ(limits_for(inputs(8)).credits, limits_for(inputs(2)).credits);
  EXPECT_EQ(limits_for(inputs(9)).credits, (std::array<std::uint16_t, 3>{24, 6, 4}));
  EXPECT_EQ(limits_for(inputs(33)).credits, (std::array<std::uint16_t, 3>{8, 4, 2}));
  EXPECT_EQ(limits_for(inputs(129)).credits, (std::array<std::uint16_t, 3>{4, 2, 2}));
}

TEST(LimitsFor, ASettingReplacesTheCollectiveCreditsButNotBelowTwo) {
  LimitInputs in = inputs(4);
  in.credits_setting = 100;
  EXPECT_EQ(limits_for(in).credits, (std::array<std::uint16_t, 3>{100, 8, 4}));
  in.credits_setting = 1;
  EXPECT_EQ(limits_for(in).credits[0], 2);
}

TEST(LimitsFor, TheSlotsAreAPowerOfTwoThatHoldsAllCredits) {
  for (int ranks : {1, 2, 8, 9, 32, 33, 128, 129, 1000}) {
    const Limits limits = limits_for(inputs(ranks));
    EXPECT_TRUE(std::has_single_bit(limits.slots));
    EXPECT_GE(limits.slots, static_cast<std::uint32_t>(total(limits)));
  }
}

TEST(LimitsFor, ASharedReceiveQueueIsDividedAmongThePeers) {
  LimitInputs in = inputs(5);
  for (std::int64_t capacity = 24; capacity < 200; ++capacity) {
    in.srq_capacity = capacity;
    const Limits limits = limits_for(in);
    EXPECT_LE(total(limits) * 4, capacity);
    for (const std::uint16_t credits : limits.credits) EXPECT_GE(credits, 2);
  }
  in.srq_capacity = 4 * 76;
  EXPECT_EQ(total(limits_for(in)), 76) << "just enough for what the table has";
  in.srq_capacity = 4 * 28;
  EXPECT_EQ(limits_for(in).credits, (std::array<std::uint16_t, 3>{16, 8, 4})) << "the small classes keep theirs";
}

TEST(LimitsFor, TwoOfEachClassStayWhateverTheQueueHolds) {
  LimitInputs in = inputs(64);
  in.srq_capacity = 10;  // bring-up refuses such a device, with these figures in its message
  EXPECT_EQ(limits_for(in).credits, (std::array<std::uint16_t, 3>{2, 2, 2}));
}

// Whatever mixture of sizes is under way: each message takes a packet, and one more for every packet's worth of bytes.
void expect_fits(const LimitInputs &in) {
  const Limits limits = limits_for(in);
  const std::int64_t lines = (in.message_bytes + 63) / 64 * 64;
  EXPECT_LE(limits.wire_bytes + lines, in.wire_bytes) << "a message's worth is lost where the ring wraps around";
  EXPECT_LE(total(limits) + limits.wire_bytes / in.packet_bytes, in.wire_packets);
  EXPECT_GE(limits.wire_bytes, 6 * lines) << "the least of each class";
  EXPECT_GE(limits.wire_bytes - limits.wire_reserve, 4 * lines);
}

TEST(LimitsFor, AllThatMayBeUnderWayFitsOnTheWireAtOnce) {
  for (const std::int64_t payload : {256, 1024, 4096, 8192, 16384}) {
    for (const std::int64_t mtu : {256, 1024, 4096}) {
      LimitInputs in = inputs(2);
      in.wire_bytes = 128 << 10;
      in.wire_packets = 120;
      in.packet_bytes = mtu;
      in.message_bytes = std::min(payload + 24, largest_message(in));
      SCOPED_TRACE(testing::Message() << payload << " in packets of " << mtu);
      expect_fits(in);
      in.credits_setting = 1024;
      expect_fits(in);
    }
  }
}

TEST(LargestMessage, SixOfThemFitOnTheWire) {
  LimitInputs in = inputs(2);
  EXPECT_GT(largest_message(in), 1 << 30) << "a wire without bounds takes anything";
  in.wire_bytes = 128 << 10;
  in.wire_packets = 120;
  for (const std::int64_t mtu : {256, 512, 1024, 2048, 4096}) {
    in.packet_bytes = mtu;
    in.message_bytes = largest_message(in);
    EXPECT_GE(in.message_bytes, 4096 + 24) << mtu;
    SCOPED_TRACE(mtu);
    expect_fits(in);
  }
}

TEST(LimitsFor, StagingMemoryIsBoundedAndChunksAreAPowerOfTwo) {
  for (int ranks : {2, 8, 64, 129, 1000}) {
    for (const std::int64_t chunk : {4 << 10, 64 << 10, 512 << 10}) {
      LimitInputs in = inputs(ranks);
      in.chunk_bytes = chunk;
      const Limits limits = limits_for(in);
      EXPECT_TRUE(std::has_single_bit(limits.chunks)) << "16-bit counts of chunks wrap around";
      EXPECT_GE(limits.chunks, 2);
      EXPECT_LE(limits.chunks, 8);
      const std::int64_t bytes = limits.chunks * chunk * (ranks - 1);
      EXPECT_TRUE(limits.chunks == 2 || bytes <= 64 << 20) << bytes;
    }
  }
}

}  // namespace
}  // namespace tutti::link

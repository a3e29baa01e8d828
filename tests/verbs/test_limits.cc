// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstring>

#include "verbs/limits.h"

namespace tutti::verbs {
namespace {

PortOffer limits(std::uint32_t qp, std::uint32_t qp_wr, std::uint32_t srq_wr, std::uint32_t cqe) {
  PortOffer offer;
  std::strcpy(offer.device, "rxe0");
  offer.port = 1;
  offer.max_qp = qp;
  offer.max_qp_wr = qp_wr;
  offer.max_srq_wr = srq_wr;
  offer.max_cqe = cqe;
  return offer;
}

TEST(Limits, ALargeDeviceGetsTheUsefulDepthAndNoMore) {
  const Result<Depths> depths =
      compute_depths(limits(65536, 32768, 32768, 1 << 22), {.peers = 7, .srq_wanted = 512, .srq_reserve = 16});
  ASSERT_TRUE(depths);
  EXPECT_EQ(depths->send_wr, 256u);
  EXPECT_EQ(depths->srq_wr, 512u);
  EXPECT_EQ(depths->cq_entries, 512u + 7 * 256);
}

TEST(Limits, ManyPeersShareTheCompletionQueue) {
  const Result<Depths> depths = compute_depths(limits(65536, 16384, 32768, 32767), {.peers = 255, .srq_wanted = 2048});
  ASSERT_TRUE(depths);
  EXPECT_EQ(depths->send_wr, (32767u - 2048) / 255);
}

TEST(Limits, TheCompletionQueueHoldsEverythingWithinTheDevicesLimits) {
  for (std::uint32_t peers : {0u, 1u, 2u, 7u, 31u, 100u, 1000u})
    for (std::uint32_t qp_wr : {2u, 4u, 64u, 16384u})
      for (std::uint32_t srq_wr : {8u, 56u, 300u, 32768u})
        for (std::uint32_t cqe : {16u, 96u, 1000u, 32767u})
          for (std::uint32_t wanted : {0u, 64u, 5000u}) {
            const PortOffer device = limits(4096, qp_wr, srq_wr, cqe);
            const DepthNeed need = {.peers = peers, .srq_wanted = wanted, .srq_reserve = 8};
            const Result<Depths> depths = compute_depths(device, need);
            // Refused exactly when the minimum does not fit.
            EXPECT_EQ(depths.has_value(), 2 * peers + 8 <= srq_wr && 2 * peers + 8 + 2 * peers <= cqe)
                << peers << " " << qp_wr << " " << srq_wr << " " << cqe;
            if (!depths) continue;
            EXPECT_GE(depths->send_wr, 2u);
            EXPECT_LE(depths->send_wr, qp_wr);
            EXPECT_GE(depths->srq_wr, 2 * peers + 8);
            EXPECT_LE(depths->srq_wr, srq_wr);
            EXPECT_LE(depths->cq_entries, cqe);
            EXPECT_GE(depths->cq_entries, depths->srq_wr + peers * depths->send_wr);
          }
}

void expect_error(const PortOffer &device, const DepthNeed &need, std::initializer_list<const char *> parts) {
  const Result<Depths> depths = compute_depths(device, need);
  ASSERT_FALSE(depths);
  EXPECT_EQ(depths.error().code, Code::limit);
  for (const char *part : parts)
    EXPECT_NE(depths.error().text.find(part), std::string::npos) << part << " in: " << depths.error().text;
}

TEST(Limits, case_08_TooFewQueuePairsNamesNeedLimitAndKnob) {
  expect_error(limits(5, 4096, 4096, 65536), {.peers = 7}, {"rxe0:1", "has 5", "needs 7", "TUTTI_DEVICE"});
}

TEST(Limits, case_08_RanksOfOneHostShareTheDevicesQueuePairs) {
  const PortOffer device = limits(500, 4096, 4096, 65536);
  EXPECT_TRUE(compute_depths(device, {.peers = 63, .local_ranks = 7}));
  expect_error(device, {.peers = 63, .local_ranks = 8}, {"needs 504", "63 peers x 8 ranks"});
}

TEST(Limits, case_08_ASmallReceiveOrCompletionQueueNamesNeedLimitAndKnob) {
  expect_error(limits(100, 4096, 16, 65536), {.peers = 7, .srq_reserve = 8}, {"holds 16", "need 22", "TUTTI_CREDITS"});
  expect_error(limits(100, 4096, 4096, 30), {.peers = 7, .srq_reserve = 8}, {"of 30", "need 36", "TUTTI_DEVICE"});
  expect_error(limits(100, 1, 4096, 4096), {.peers = 7}, {"send queues of 1", "needs 2"});
}

}  // namespace
}  // namespace tutti::verbs

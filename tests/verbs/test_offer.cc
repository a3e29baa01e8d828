// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "verbs/offer.h"

namespace tutti::verbs {
namespace {

PortOffer roce(const char *device, const char *address, int port = 1) {
  PortOffer offer;
  std::strcpy(offer.host, "h");
  std::strcpy(offer.device, device);
  offer.kind = static_cast<std::uint8_t>(DeviceKind::rdma);
  offer.port = static_cast<std::uint8_t>(port);
  offer.link_layer = IBV_LINK_LAYER_ETHERNET;
  offer.gid_type = static_cast<std::uint8_t>(GidEntry::Type::roce_v2);
  offer.active_mtu = IBV_MTU_1024;
  EXPECT_EQ(inet_pton(AF_INET6, address, offer.gid.raw), 1) << address;
  return offer;
}

PortOffer infiniband(const char *device, const char *address) {
  PortOffer offer = roce(device, address);
  offer.link_layer = IBV_LINK_LAYER_INFINIBAND;
  offer.gid_type = static_cast<std::uint8_t>(GidEntry::Type::infiniband);
  return offer;
}

PortOffer software(const char *host, const char *subnet = "") {
  PortOffer offer = roce("software", "fd00::7");
  offer.kind = static_cast<std::uint8_t>(DeviceKind::software);
  std::strcpy(offer.host, host);
  std::strcpy(offer.interface, subnet);
  return offer;
}

// What both ranks decide; they must not differ.
Result<OfferPair> decide(const std::vector<PortOffer> &rank0, const std::vector<PortOffer> &rank1) {
  const Result<OfferPair> here = agree({0, rank0}, {1, rank1}), there = agree({1, rank1}, {0, rank0});
  EXPECT_EQ(here.has_value(), there.has_value());
  if (here && there) {
    EXPECT_EQ(here->mine, there->theirs);
    EXPECT_EQ(here->theirs, there->mine);
  } else if (!here && !there) {
    EXPECT_EQ(here.error().text, there.error().text);
  }
  return here;
}

void expect_pair(const std::vector<PortOffer> &rank0, const std::vector<PortOffer> &rank1, std::size_t first,
                 std::size_t second) {
  const Result<OfferPair> pair = decide(rank0, rank1);
  ASSERT_TRUE(pair) << pair.error().text;
  EXPECT_EQ(pair->mine, first);
  EXPECT_EQ(pair->theirs, second);
}

TEST(Agree, case_05_APortThatIsDownOnOneRankIsNotPairedByPosition) {
  // Rank 1's d0 is DOWN, so it offers d1 only.
  expect_pair({roce("d0", "::ffff:10.0.0.1"), roce("d1", "::ffff:10.0.1.1")}, {roce("d1", "::ffff:10.0.1.2")}, 1, 0);
}

TEST(Agree, case_05_NoCommonNetworkListsWhatEachRankOffered) {
  const Result<OfferPair> pair = decide({infiniband("d0", "fe80:0:0:1::1")}, {infiniband("d2", "fe80:0:0:2::1")});
  ASSERT_FALSE(pair);
  EXPECT_EQ(pair.error().code, Code::device);
  for (const char *part : {"rank 0 offers d0:1", "rank 1 offers d2:1"})
    EXPECT_NE(pair.error().text.find(part), std::string::npos) << pair.error().text;
}

TEST(Agree, case_05_ARankWithoutPortsIsNamed) {
  const Result<OfferPair> pair = decide({roce("d0", "::ffff:10.0.0.1")}, {});
  ASSERT_FALSE(pair);
  EXPECT_NE(pair.error().text.find("rank 1 offers no usable port"), std::string::npos) << pair.error().text;
}

TEST(Agree, SoftwareDevicesMeetInsideOneHostAndOneSubnetOnly) {
  EXPECT_TRUE(decide({software("a")}, {software("a")}));
  EXPECT_FALSE(decide({software("a")}, {software("b")}));
  EXPECT_FALSE(decide({software("a", "x")}, {software("a", "y")}));
}

TEST(Agree, TheSoftwareDeviceIsPreferredInsideAHostAndRdmaUsedBetweenHosts) {
  const PortOffer nic = roce("d0", "::ffff:10.0.0.1"), other = roce("d0", "::ffff:10.0.0.2");
  expect_pair({nic, software("a")}, {other, software("a")}, 1, 1);
  expect_pair({nic, software("a")}, {other, software("b")}, 0, 0);
}

TEST(Agree, LinkLayersAndAddressScopesDoNotMix) {
  EXPECT_FALSE(decide({roce("d0", "fe80::1")}, {infiniband("d0", "fe80::2")}));
  EXPECT_FALSE(decide({roce("d0", "::ffff:10.0.0.1")}, {roce("d0", "fd00::1")}));
  EXPECT_FALSE(decide({roce("d0", "fe80::1")}, {roce("d0", "fd00::1")}));
  EXPECT_TRUE(decide({roce("d0", "2001:db8::1")}, {roce("d0", "fd00::1")}));
}

TEST(Agree, PortsOfDifferentPartitionsDoNotMeet) {
  const auto in_partition = [](std::uint16_t pkey) {
    PortOffer offer = roce("d0", "::ffff:10.0.0.1");
    offer.pkey = pkey;
    return offer;
  };
  EXPECT_TRUE(decide({in_partition(0x8001)}, {in_partition(0x8001)}));
  EXPECT_TRUE(decide({in_partition(0x8001)}, {in_partition(0x0001)}));
  EXPECT_FALSE(decide({in_partition(0x0001)}, {in_partition(0x0001)})) << "two limited members";
  const Result<OfferPair> pair = decide({in_partition(0x8001)}, {in_partition(0xffff)});
  ASSERT_FALSE(pair);
  EXPECT_NE(pair.error().text.find("P_Key 0x8001"), std::string::npos) << pair.error().text;
}

TEST(Agree, NearPortsWinOverFarOnes) {
  PortOffer far = roce("d0", "::ffff:10.0.0.1");
  far.far = 1;
  expect_pair({far, roce("d1", "::ffff:10.0.1.1")}, {roce("d0", "::ffff:10.0.0.2"), roce("d1", "::ffff:10.0.1.2")}, 1,
              1);
}

TEST(Agree, RailsOfEqualNamesArePairedOnOneSubnet) {
  expect_pair({roce("d1", "::ffff:10.0.0.1"), roce("d0", "::ffff:10.0.0.2")}, {roce("d0", "::ffff:10.0.0.3")}, 1, 0);
}

TEST(Agree, BothRanksDecideAlikeOnEverythingTheyCanOffer) {
  std::mt19937 random(7);
  const char *addresses[] = {"::ffff:10.0.0.1", "::ffff:10.0.0.2", "::ffff:10.0.1.1", "fd00::1", "fe80::1"};
  const char *names[] = {"d0", "d1", "d2"};
  const auto offers = [&] {
    std::vector<PortOffer> result;
    for (auto count = random() % 5; count > 0; --count) {
      PortOffer offer = random() % 4 == 0 ? software(random() % 2 == 0 ? "a" : "b")
                                          : roce(names[random() % 3], addresses[random() % 5], 1 + random() % 2);
      offer.far = random() % 2;
      result.push_back(offer);
    }
    return result;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::vector<PortOffer> a = offers(), b = offers();
    const Result<OfferPair> pair = decide(a, b);
    EXPECT_TRUE(!pair || reachable(a[pair->mine], b[pair->theirs]));
  }
}

TEST(Offer, DevicesAreNamedWithAndWithoutPort) {
  const PortOffer nic = roce("mlx5_0", "::ffff:10.0.0.1", 2);
  EXPECT_TRUE(wanted("auto", nic));
  EXPECT_TRUE(wanted("mlx5_0", nic));
  EXPECT_TRUE(wanted("mlx5_0:2", nic));
  EXPECT_FALSE(wanted("mlx5_0:1", nic));
  EXPECT_FALSE(wanted("mlx5", nic));
  EXPECT_FALSE(wanted("software", nic));
  EXPECT_TRUE(wanted("software", software("a")));
}

}  // namespace
}  // namespace tutti::verbs

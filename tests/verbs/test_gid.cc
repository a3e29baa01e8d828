// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>

#include "verbs/gid.h"

namespace tutti::verbs {
namespace {

constexpr auto kV1 = GidEntry::Type::roce_v1;
constexpr auto kV2 = GidEntry::Type::roce_v2;

GidEntry entry(std::uint32_t index, GidEntry::Type type, const char *address) {
  GidEntry result = {};
  result.index = index;
  result.type = type;
  EXPECT_EQ(inet_pton(AF_INET6, address, result.gid.raw), 1) << address;
  std::strcpy(result.interface, "eth0");
  return result;
}

std::int64_t chosen(std::vector<GidEntry> table, std::int64_t override_index = -1) {
  const Result<GidEntry> gid = choose_gid(table, IBV_LINK_LAYER_ETHERNET, override_index);
  return gid ? std::int64_t{gid->index} : -1;
}

TEST(Gid, case_02_PrefersRoutableIpv4OverTheTablesOrder) {
  EXPECT_EQ(chosen({entry(0, kV1, "fe80::1"), entry(1, kV2, "fe80::1"), entry(2, kV1, "::ffff:10.0.0.1"),
                    entry(3, kV2, "::ffff:10.0.0.1")}),
            3);
}

TEST(Gid, case_02_PrefersUniqueLocalOverLinkLocalIpv6) {
  EXPECT_EQ(chosen({entry(0, kV2, "fe80::1"), entry(1, kV2, "fd00::1")}), 1);
  EXPECT_EQ(chosen({entry(0, kV2, "fe80::1"), entry(1, kV2, "2001:db8::1")}), 1);
}

TEST(Gid, case_02_AnEmptyTableFailsCleanly) {
  const Result<GidEntry> gid = choose_gid({}, IBV_LINK_LAYER_ETHERNET, -1);
  ASSERT_FALSE(gid);
  EXPECT_EQ(gid.error().code, Code::device);
  EXPECT_NE(gid.error().text.find("holds nothing"), std::string::npos) << gid.error().text;
}

TEST(Gid, LinkLocalIsTakenWhenThereIsNothingElse) {
  EXPECT_EQ(chosen({entry(4, kV1, "::ffff:10.0.0.1"), entry(5, kV2, "fe80::1")}), 5);
  EXPECT_EQ(chosen({entry(0, kV2, "fe80::1"), entry(1, kV2, "::ffff:169.254.3.4")}), 1);
}

TEST(Gid, RoceV1IsNeverChosenAndTheErrorShowsTheTable) {
  const std::vector<GidEntry> table = {entry(0, kV1, "fe80::1"), entry(2, kV1, "::ffff:10.0.0.1")};
  const Result<GidEntry> gid = choose_gid(table, IBV_LINK_LAYER_ETHERNET, -1);
  ASSERT_FALSE(gid);
  EXPECT_NE(gid.error().text.find("2: RoCE v1 ::ffff:10.0.0.1 (eth0)"), std::string::npos) << gid.error().text;
}

TEST(Gid, AddressesThatReachNobodyAreNotAddresses) {
  for (const char *address : {"::", "::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "::ffff:224.0.0.1"})
    EXPECT_EQ(chosen({entry(0, kV2, address)}), -1) << address;
}

TEST(Gid, TheLowestIndexWinsAmongEquals) {
  EXPECT_EQ(chosen({entry(7, kV2, "::ffff:10.0.0.2"), entry(3, kV2, "::ffff:10.0.0.1")}), 3);
}

TEST(Gid, AnOverrideTakesAnyEntryThatExists) {
  const std::vector<GidEntry> table = {entry(0, kV1, "fe80::1"), entry(3, kV2, "::ffff:10.0.0.1")};
  EXPECT_EQ(chosen(table, 0), 0);
  const Result<GidEntry> hole = choose_gid(table, IBV_LINK_LAYER_ETHERNET, 1);
  ASSERT_FALSE(hole);
  EXPECT_NE(hole.error().text.find("TUTTI_GID_INDEX=1"), std::string::npos);
  EXPECT_NE(hole.error().text.find("3: RoCE v2"), std::string::npos);
}

TEST(Gid, IndexesBeyondAnAddressHandlesEightBitsAreNotUsed) {
  EXPECT_EQ(chosen({entry(256, kV2, "::ffff:10.0.0.1"), entry(9, kV2, "fe80::1")}), 9);
  EXPECT_FALSE(choose_gid(std::vector{entry(256, kV2, "::ffff:10.0.0.1")}, IBV_LINK_LAYER_ETHERNET, 256));
}

TEST(Gid, AnInfinibandPortUsesItsFirstEntry) {
  const std::vector<GidEntry> table = {entry(1, GidEntry::Type::infiniband, "fe80::2"),
                                       entry(0, GidEntry::Type::infiniband, "fe80::1")};
  const Result<GidEntry> gid = choose_gid(table, IBV_LINK_LAYER_INFINIBAND, -1);
  ASSERT_TRUE(gid);
  EXPECT_EQ(gid->index, 0u);
}

}  // namespace
}  // namespace tutti::verbs

// SPDX-License-Identifier: BSD-3-Clause
//
// What ranks conclude from what all of them have said first.
#include "api/hello.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "api/tuning.h"
#include "base/version.h"

namespace tutti::api {
namespace {

Hello hello_of(const char *host, std::uint64_t cpus, int usable) {
  Hello hello;
  std::strcpy(hello.version, "0.1.0");
  std::snprintf(hello.host, sizeof(hello.host), "%s", host);
  std::strcpy(hello.fingerprint, "TUTTI_CREDITS=0;TUTTI_ALGO=;");
  hello.cpus[0] = cpus;
  hello.usable_cpus = usable;
  return hello;
}

int ranks_per_core(const std::vector<Hello> &hellos) {
  const Result<Group> group = understand(hellos, 0, "key");
  EXPECT_TRUE(group);
  return group ? group->ranks_per_core : -1;
}

TEST(RanksPerCore, UnboundRanksShareAllCpusOfTheirHost) {
  EXPECT_EQ(ranks_per_core(std::vector<Hello>(4, hello_of("a", 0b11, 2))), 2);
  EXPECT_EQ(ranks_per_core(std::vector<Hello>(2, hello_of("a", 0b11, 2))), 1);
  EXPECT_EQ(ranks_per_core(std::vector<Hello>(3, hello_of("a", 0b11, 2))), 2) << "rounded up";
}

TEST(RanksPerCore, BoundRanksHaveWhatTheyAreBoundToTogether) {
  EXPECT_EQ(ranks_per_core({hello_of("a", 0b01, 1), hello_of("a", 0b10, 1)}), 1);
  EXPECT_EQ(ranks_per_core({hello_of("a", 0b0011, 2), hello_of("a", 0b1100, 2), hello_of("a", 0b110000, 2)}), 1)
      << "two cores each are not two cores for all";
  EXPECT_EQ(ranks_per_core({hello_of("a", 0b1, 1), hello_of("a", 0b1, 1)}), 2);
}

TEST(RanksPerCore, AQuotaHoldsForAllRanksOfAHostTogether) {
  EXPECT_EQ(ranks_per_core(std::vector<Hello>(4, hello_of("a", 0xff, 2))), 2);
  EXPECT_EQ(ranks_per_core(std::vector<Hello>(4, hello_of("a", 0xff, 1))), 4);
}

TEST(RanksPerCore, TheMostCrowdedHostCounts) {
  EXPECT_EQ(ranks_per_core({hello_of("a", 0b11, 2), hello_of("b", 0b1, 1), hello_of("b", 0b1, 1)}), 2);
}

TEST(Group, RanksAreNumberedWithinTheirHost) {
  const std::vector<Hello> hellos = {hello_of("a", 1, 1), hello_of("b", 1, 1), hello_of("a", 2, 1),
                                     hello_of("b", 2, 1)};
  const Result<Group> group = understand(hellos, 3, "key");
  ASSERT_TRUE(group);
  EXPECT_EQ(group->hosts, 2);
  EXPECT_EQ(group->local_rank, 1);
  EXPECT_EQ(group->local_ranks, 2);
  EXPECT_EQ(group->host_of_rank, (std::vector<std::int32_t>{0, 1, 0, 1}));
}

TEST(Group, KnowsTheKindsOfHostsOnceEach) {
  std::vector<Hello> hellos = {hello_of("a", 1, 1), hello_of("b", 1, 1), hello_of("c", 1, 1)};
  for (Hello &hello : hellos) std::strcpy(hello.machine, "8 CPUs, Y");
  std::strcpy(hellos[1].machine, "2 CPUs, X");
  EXPECT_EQ(understand(hellos, 2, "key")->machines, (std::vector<std::string>{"2 CPUs, X", "8 CPUs, Y"}));
}

// Equal on all ranks, whichever asks.
TEST(Machine, IsVersionDevicesOfAllRanksAndKindsOfHosts) {
  verbs::PortOffer software, rxe;
  software.kind = static_cast<std::uint8_t>(verbs::DeviceKind::software);
  rxe.kind = static_cast<std::uint8_t>(verbs::DeviceKind::rdma);
  rxe.port = 1;
  std::strcpy(rxe.device, "rxe0");
  const std::vector<std::string> kinds = {"2 CPUs, X # 1\n", "8 CPUs, Y\xc3\xa9"};
  const std::vector<std::vector<verbs::PortOffer>> offers = {{software}, {software, rxe}, {rxe}};
  EXPECT_EQ(machine_text(kinds, offers),
            fmt::format("Tutti {}; rxe0:1 + software device; 2 CPUs, X   1  + 8 CPUs, Y  ", kLibraryVersion));
}

TEST(Group, TheBootstrapsKeyComesBeforeRankZeros) {
  std::vector<Hello> hellos(2, hello_of("a", 1, 1));
  std::strcpy(hellos[0].job_key, "drawn by rank 0");
  EXPECT_EQ(understand(hellos, 1, "")->job_key, "drawn by rank 0");
  EXPECT_EQ(understand(hellos, 1, "given")->job_key, "given");
}

TEST(Group, AnotherVersionIsAnErrorThatNamesTheRank) {
  std::vector<Hello> hellos(3, hello_of("a", 1, 1));
  std::strcpy(hellos[2].version, "0.2.0");
  const Result<Group> group = understand(hellos, 0, "key");
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code, Code::version);
  EXPECT_EQ(group.error().peer, 2);
  EXPECT_EQ(group.error().text, "rank 2 runs version 0.2.0 and rank 0 runs 0.1.0: use one installation on all hosts");
}

TEST(Group, AnotherConfigurationIsAnErrorThatNamesTheDifference) {
  std::vector<Hello> hellos(2, hello_of("a", 1, 1));
  std::strcpy(hellos[1].fingerprint, "TUTTI_CREDITS=4;TUTTI_ALGO=;");
  const Result<Group> group = understand(hellos, 0, "key");
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code, Code::config);
  EXPECT_EQ(group.error().peer, 1);
  EXPECT_NE(group.error().text.find("TUTTI_CREDITS is '4' here and '0' there"), std::string::npos)
      << group.error().text;
}

}  // namespace
}  // namespace tutti::api

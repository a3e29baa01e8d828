// SPDX-License-Identifier: BSD-3-Clause
//
// Addresses: what TUTTI_INTERFACE accepts, and how peers and ranks are named.
#include <gtest/gtest.h>

#include <vector>

#include "net/endpoint.h"
#include "net/interface.h"
#include "net/rank_list.h"

namespace tutti::net {
namespace {

TEST(RankList, ReadsAsEnglishAndStaysShort) {
  EXPECT_EQ(rank_list(std::vector{3}), "rank 3");
  EXPECT_EQ(rank_list(std::vector{3, 5}), "ranks 3 and 5");
  EXPECT_EQ(rank_list(std::vector{1, 2, 9}), "ranks 1, 2 and 9");
  EXPECT_EQ(rank_list(std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

Endpoint address(const char *text) { return *parse_address(text); }

TEST(Endpoint, TextComesBackAsItWas) {
  EXPECT_EQ(address("10.0.0.3").with_port(80).text(), "10.0.0.3:80");
  EXPECT_EQ(address("fd00::2").with_port(80).text(), "[fd00::2]:80");
  for (const char *bad : {"", "10.0.0", "10.0.0.3.4", "10.0.0.256", "host", "fd00:::2", "10.0.0.3 "})
    EXPECT_FALSE(parse_address(bad)) << bad;
}

TEST(Endpoint, AMappedAddressIsTheIpv4Address) { EXPECT_EQ(address("::ffff:10.0.0.3"), address("10.0.0.3")); }

TEST(Endpoint, KindsOfAddressesAreKnown) {
  for (const char *text : {"127.0.0.1", "127.0.1.1", "::1"}) EXPECT_TRUE(address(text).loopback()) << text;
  for (const char *text : {"10.0.0.3", "fd00::1", "::2", "::"}) EXPECT_FALSE(address(text).loopback()) << text;
  for (const char *text : {"169.254.1.1", "fe80::1"}) EXPECT_TRUE(address(text).link_local()) << text;
  for (const char *text : {"0.0.0.0", "::"}) EXPECT_TRUE(address(text).wildcard()) << text;
}

TEST(Endpoint, SocketAddressesComeBackAsTheyWere) {
  for (const char *text : {"10.0.0.3", "fd00::2", "::1", "127.0.0.1"}) {
    const Endpoint endpoint = address(text).with_port(4711);
    EXPECT_EQ(from_socket_address(to_socket_address(endpoint).get()), endpoint);
  }
}

TEST(Endpoint, case_28_TheSourceAddressIsThatOfTheRoute) {
  EXPECT_EQ(source_toward(address("127.0.0.1"))->address_text(), "127.0.0.1");
  // Towards an address of this host, the route's source is that address itself: never 127.0.1.1 of some hosts file.
  const auto local = local_addresses();
  ASSERT_TRUE(local);
  for (const LocalAddress &entry : *local) {
    if (!entry.endpoint.link_local()) {
      EXPECT_EQ(source_toward(entry.endpoint)->address_text(), entry.endpoint.address_text());
    }
  }
}

const std::vector<LocalAddress> kHost = {{"lo", address("127.0.0.1")},     {"lo", address("::1")},
                                         {"eth0", address("10.1.2.3")},    {"eth0", address("fd00::3")},
                                         {"eth0", address("fe80::3")},     {"docker0", address("172.17.0.1")},
                                         {"ib0", address("192.168.100.3")}};

std::string selected(std::string_view rule) {
  const auto endpoints = select_addresses(rule, kHost);
  if (!endpoints) return endpoints.error().text;
  std::string text;
  for (const Endpoint &endpoint : *endpoints)
    text += fmt::format("{}{}", text.empty() ? "" : " ", endpoint.address_text());
  return text;
}

TEST(Interface, WithoutARuleAllButLoopbackAndLinkLocalServe) {
  EXPECT_EQ(selected(""), "10.1.2.3 172.17.0.1 192.168.100.3 fd00::3");
  EXPECT_EQ(select_addresses("", std::span(kHost).first(2))->front(), address("127.0.0.1"));
}

TEST(Interface, NamesAddressesPrefixesAndExclusionsAreRules) {
  EXPECT_EQ(selected("ib0"), "192.168.100.3");
  EXPECT_EQ(selected("eth0"), "10.1.2.3 fd00::3");
  EXPECT_EQ(selected("lo"), "127.0.0.1 ::1");
  EXPECT_EQ(selected("10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(selected("10.0.0.0/8"), "10.1.2.3");
  EXPECT_EQ(selected("192.168.100.0/23,fd00::/16"), "192.168.100.3 fd00::3");
  EXPECT_EQ(selected("^docker0"), "10.1.2.3 192.168.100.3 fd00::3");
  EXPECT_EQ(selected("^docker0,fd00::/8,10.1.2.3"), "192.168.100.3");
}

TEST(Interface, case_28_BadValuesAreOneLineThatSaysWhatIsWrong) {
  for (const char *bad : {"10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "fd00::/129", "eth0/8", "eth0,", ",", "^",
                          "10.0.0.0/-1", "a name with spaces", "averyverylongname"}) {
    const auto endpoints = select_addresses(bad, kHost);
    ASSERT_FALSE(endpoints) << bad;
    EXPECT_EQ(endpoints.error().code, Code::config);
    EXPECT_EQ(endpoints.error().text.find(fmt::format("TUTTI_INTERFACE={} is not accepted: ", bad)), 0u)
        << endpoints.error().text;
    EXPECT_EQ(endpoints.error().text.find('\n'), std::string::npos);
  }
}

TEST(Interface, ARuleThatFitsNothingSaysWhatTheHostHas) {
  for (const char *absent : {"eht0", "10.9.9.9", "11.0.0.0/8"})
    EXPECT_EQ(selected(absent).find(fmt::format("TUTTI_INTERFACE={} matches no interface that is up; this host has: lo "
                                                "127.0.0.1, lo ::1, eth0 10.1.2.3",
                                                absent)),
              0u)
        << selected(absent);
  EXPECT_EQ(selected("^0.0.0.0/0,::/0").find("TUTTI_INTERFACE=^0.0.0.0/0,::/0 leaves no address"), 0u);
}

}  // namespace
}  // namespace tutti::net

// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>

#include "base/config.h"

namespace tutti {
namespace {

TEST(Config, DefaultsAreWithinTheirOwnRanges) {
  std::vector<std::string> unknown;
  const Result<Config> config = read_config({}, &unknown);
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->eager_bytes, 4096);
  EXPECT_EQ(config->qp_timeout, 20);
  EXPECT_EQ(config->device, "auto");
  EXPECT_TRUE(unknown.empty());
}

TEST(Config, EveryNumberRefusesWhatIsOutsideItsRangeAndSaysWhatItTakes) {
  for (const Variable &variable : config_variables()) {
    if (!std::holds_alternative<std::int64_t Config::*>(variable.member)) continue;
    for (const std::string &bad : {std::to_string(variable.max + 1), std::to_string(variable.min - 1),
                                   std::string("many"), std::string(""), std::string("1x")}) {
      const Result<Config> config = read_config({{variable.name, bad}}, nullptr);
      ASSERT_FALSE(config) << variable.name << "=" << bad;
      EXPECT_EQ(config.error().code, Code::config);
      EXPECT_NE(config.error().text.find(variable.name), std::string::npos);
      EXPECT_NE(config.error().text.find(std::to_string(variable.max)), std::string::npos);
    }
    EXPECT_TRUE(read_config({{variable.name, std::to_string(variable.max)}}, nullptr)) << variable.name;
  }
}

TEST(Config, WordsAreChecked) {
  const Result<Config> config = read_config({{"TUTTI_PIN", "cores"}}, nullptr);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().text, "TUTTI_PIN=cores is not accepted: it takes one of auto, core, off");
}

TEST(Config, SizesTakeSuffixes) {
  EXPECT_EQ(parse_bytes("4K"), 4096);
  EXPECT_EQ(parse_bytes("2MiB"), 2 << 20);
  EXPECT_EQ(parse_bytes("1g"), 1 << 30);
  EXPECT_EQ(parse_bytes("17"), 17);
  for (const char *bad : {"", "K", "4T", "-1", "4 K", "0x10", "9223372036854775807K"})
    EXPECT_FALSE(parse_bytes(bad)) << bad;
}

TEST(Config, NumbersMayBeHexadecimalAndKeysAreShownSo) {
  EXPECT_EQ(parse_integer("0x8001"), 0x8001);
  for (const char *bad : {"", "0x", "0x-1", "0xg", "8001x", "x8001"}) EXPECT_FALSE(parse_integer(bad)) << bad;
  const auto pkey = std::ranges::find_if(config_variables(),
                                         [](const Variable &v) { return std::string_view(v.name) == "TUTTI_PKEY"; });
  EXPECT_EQ(config_text(*read_config({{"TUTTI_PKEY", "32769"}}, nullptr), *pkey), "0x8001");
  EXPECT_EQ(config_text(*read_config({}, nullptr), *pkey), "-1");
  EXPECT_FALSE(read_config({{"TUTTI_PKEY", "0x10000"}}, nullptr));
  EXPECT_FALSE(read_config({{"TUTTI_FLOW_LABEL", "0x100000"}}, nullptr)) << "20 bits";
}

TEST(Config, AMisspeltVariableIsReportedWithTheNearestName) {
  std::vector<std::string> unknown;
  ASSERT_TRUE(read_config({{"TUTTI_DEVCIE", "rxe0"}, {"OTHER", "x"}}, &unknown));
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_NE(unknown[0].find("did you mean TUTTI_DEVICE?"), std::string::npos) << unknown[0];
}

TEST(Config, FingerprintsDifferWhereRanksMustAgreeAndNameTheVariable) {
  const Config a = *read_config({}, nullptr), b = *read_config({{"TUTTI_EAGER_BYTES", "8K"}}, nullptr),
               c = *read_config({{"TUTTI_LOG", "debug"}}, nullptr);
  EXPECT_EQ(config_difference(config_fingerprint(a), config_fingerprint(c)), "");
  EXPECT_EQ(config_difference(config_fingerprint(a), config_fingerprint(b)),
            "TUTTI_EAGER_BYTES is '4096' here and '8192' there");
}

TEST(Config, SecretsAreNeverShown) {
  const Config config = *read_config({{"TUTTI_JOB_KEY", "do not show this key"}}, nullptr);
  for (const Variable &variable : config_variables())
    EXPECT_EQ(config_text(config, variable).find("do not show"), std::string::npos);
}

}  // namespace
}  // namespace tutti

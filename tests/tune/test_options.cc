// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-tune's command line: what it understands, and that every mistake gets one line and status 2.
#include <gtest/gtest.h>

#include "tutti-tune/options.h"

namespace tutti::tune {
namespace {

std::variant<Options, perf::Goodbye> parse(std::vector<const char *> words) {
  words.insert(words.begin(), "tutti-tune");
  return parse_options(static_cast<int>(words.size()), words.data());
}

Options understood(const std::vector<const char *> &words) {
  auto parsed = parse(words);
  if (const auto *goodbye = std::get_if<perf::Goodbye>(&parsed)) ADD_FAILURE() << goodbye->text;
  return std::holds_alternative<Options>(parsed) ? std::get<Options>(parsed) : Options{};
}

TEST(TuneOptions, HaveDefaults) {
  const Options options = understood({});
  EXPECT_EQ(options.which.size(), 7u);
  EXPECT_EQ(options.sizes.front(), 8u);
  EXPECT_EQ(options.sizes.back(), 4u << 20);
  EXPECT_EQ(options.least_gain, 0.05);
  EXPECT_FALSE(options.dry);
}

TEST(TuneOptions, AreUnderstood) {
  const Options options = understood({"barrier", "allgather", "barrier", "-b", "3", "-e", "1K", "-f", "7", "-g", "2.5",
                                      "-t", "0.5", "-o", "file", "--dry-run"});
  EXPECT_EQ(options.which, (std::vector{collectives::Collective::barrier, collectives::Collective::allgather}));
  EXPECT_EQ(options.sizes, (std::vector<std::size_t>{3, 21, 147}));
  EXPECT_EQ(options.least_gain, 0.025);
  EXPECT_EQ(options.seconds, 0.5);
  EXPECT_EQ(options.output, "file");
  EXPECT_TRUE(options.dry);
}

TEST(TuneOptions, MistakesGetOneLine) {
  const auto mistake = [](const std::vector<const char *> &words) {
    auto parsed = parse(words);
    const auto *goodbye = std::get_if<perf::Goodbye>(&parsed);
    if (goodbye == nullptr) return std::string("accepted");
    EXPECT_EQ(goodbye->status, perf::kExitUsage);
    EXPECT_EQ(goodbye->text.find('\n'), std::string::npos) << goodbye->text;
    return goodbye->text;
  };
  EXPECT_EQ(mistake({"telepathy"}).substr(0, 60), "tutti-tune: there is no collective 'telepathy': it takes all");
  EXPECT_EQ(mistake({"scan"}).substr(0, 60), "tutti-tune: scan has nothing to choose between by size: it t");
  EXPECT_EQ(mistake({"alltoallv"}).substr(0, 40), "tutti-tune: alltoallv has nothing to cho");
  EXPECT_EQ(mistake({"-b", "0"}), "tutti-tune: -b 0 is not a size: digits and an optional K, M or G, from 1 up");
  EXPECT_EQ(mistake({"-e", "x"}), "tutti-tune: -e x is not a size: digits and an optional K, M or G");
  EXPECT_EQ(mistake({"-b", "8M"}), "tutti-tune: -b 8M is more than -e 4M: give a smaller -b or a larger -e");
  EXPECT_EQ(mistake({"-f", "1"}), "tutti-tune: -f 1 leads nowhere: it takes 2 or more");
  EXPECT_EQ(mistake({"-t", "0"}), "tutti-tune: -t 0: it takes seconds, more than 0");
  EXPECT_EQ(mistake({"-g", "100"}), "tutti-tune: -g 100: it takes a percentage from 0 to below 100");
  EXPECT_NE(mistake({"--nothing"}).find("see tutti-tune --help"), std::string::npos);
}

}  // namespace
}  // namespace tutti::tune

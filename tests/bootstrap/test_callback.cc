// SPDX-License-Identifier: BSD-3-Clause
#include "bootstrap/callback.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tutti::bootstrap {
namespace {

struct Script {
  std::int32_t status = 0;
  int own_place = 1;
  int calls = 0;
};

// Three ranks: the caller's bytes at own_place, zeros elsewhere.
std::int32_t scripted_allgather(void *user, const void *in, void *out, std::size_t bytes_each) {
  auto *script = static_cast<Script *>(user);
  ++script->calls;
  std::memset(out, 0, 3 * bytes_each);
  std::memcpy(static_cast<char *>(out) + static_cast<std::size_t>(script->own_place) * bytes_each, in, bytes_each);
  return script->status;
}

tutti_bootstrap scripted(Script *script) { return {sizeof(tutti_bootstrap), 1, 3, script, scripted_allgather}; }

const std::vector<std::byte> kMine = {std::byte{7}, std::byte{8}};

TEST(Callback, PassesRankSizeAndBytesThrough) {
  Script script;
  const auto end = from_callback(scripted(&script));
  ASSERT_TRUE(end) << end.error().text;
  EXPECT_EQ((*end)->rank(), 1);
  EXPECT_EQ((*end)->ranks(), 3);
  const auto all = (*end)->allgather(kMine, Deadline());
  ASSERT_TRUE(all) << all.error().text;
  EXPECT_EQ(*all, (std::vector<std::byte>{{}, {}, std::byte{7}, std::byte{8}, {}, {}}));
  EXPECT_EQ(script.calls, 1);
}

TEST(Callback, AFailureNamesTheStatus) {
  Script script{.status = 17};
  const auto all = (*from_callback(scripted(&script)))->allgather(kMine, Deadline());
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, Code::bootstrap);
  EXPECT_NE(all.error().text.find("status 17"), std::string::npos) << all.error().text;
}

TEST(Callback, BytesOutOfRankOrderAreFoundAtOnce) {
  Script script{.own_place = 2};
  const auto all = (*from_callback(scripted(&script)))->allgather(kMine, Deadline());
  ASSERT_FALSE(all);
  EXPECT_NE(all.error().text.find("rank order"), std::string::npos) << all.error().text;
}

TEST(Callback, APassedDeadlineIsNotSpentInTheCaller) {
  Script script;
  const auto all = (*from_callback(scripted(&script)))->allgather(kMine, Deadline::after_ms(0));
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, Code::timeout);
  EXPECT_EQ(script.calls, 0);
}

TEST(Callback, AStructThatCannotBeRightIsRefused) {
  Script script;
  const auto refused = [&](auto change, const char *word) {
    tutti_bootstrap bad = scripted(&script);
    change(bad);
    const auto end = from_callback(bad);
    ASSERT_FALSE(end) << word;
    EXPECT_EQ(end.error().code, Code::argument);
    EXPECT_NE(end.error().text.find(word), std::string::npos) << end.error().text;
  };
  refused([](tutti_bootstrap &b) { b.size = 8; }, "size");
  refused([](tutti_bootstrap &b) { b.ranks = 0; }, "ranks");
  refused([](tutti_bootstrap &b) { b.rank = 3; }, "rank");
  refused([](tutti_bootstrap &b) { b.rank = -1; }, "rank");
  refused([](tutti_bootstrap &b) { b.allgather = nullptr; }, "allgather");
}

}  // namespace
}  // namespace tutti::bootstrap

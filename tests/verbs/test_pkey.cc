// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "verbs/pkey.h"

namespace tutti::verbs {
namespace {

const PkeyEntry kTable[] = {{0xffff, 0}, {0x0001, 1}, {0x8001, 3}, {0x0002, 4}};

TEST(Pkey, TheFirstRowIsTheDefault) { EXPECT_EQ(choose_pkey(kTable, -1)->index, 0); }

TEST(Pkey, AKeyIsFoundByItsValueWhereverItStands) {
  EXPECT_EQ(choose_pkey(kTable, 0x8001)->index, 3);
  EXPECT_EQ(choose_pkey(kTable, 0xffff)->index, 0);
}

TEST(Pkey, WithoutTheMembershipBitTheFullMembershipIsPreferred) {
  EXPECT_EQ(choose_pkey(kTable, 0x0001)->index, 3);
  EXPECT_EQ(choose_pkey(kTable, 0x0002)->index, 4) << "else the limited one";
  EXPECT_EQ(choose_pkey(kTable, 0x7fff)->index, 0);
}

TEST(Pkey, AMissingOneIsAnErrorThatSaysWhatTheTableHolds) {
  for (const std::int64_t wanted : {0x8002, 0x1234}) {
    const Result<PkeyEntry> entry = choose_pkey(kTable, wanted);
    ASSERT_FALSE(entry);
    EXPECT_EQ(entry.error().code, Code::device);
    for (const std::string &part : {fmt::format("TUTTI_PKEY={:#06x}", wanted),
                                    std::string("holds 0xffff[0], 0x0001[1] limited, 0x8001[3], 0x0002[4] limited")})
      EXPECT_NE(entry.error().text.find(part), std::string::npos) << entry.error().text;
  }
}

TEST(Pkey, ATableThatCannotBeReadMattersOnlyToThoseWhoAsk) {
  EXPECT_EQ(choose_pkey({}, -1)->value, 0);
  EXPECT_FALSE(choose_pkey({}, 0xffff));
}

TEST(Pkey, TwoLimitedMembersAreNotInOnePartition) {
  EXPECT_TRUE(same_partition(0x8001, 0x8001));
  EXPECT_TRUE(same_partition(0x8001, 0x0001));
  EXPECT_FALSE(same_partition(0x0001, 0x0001));
  EXPECT_FALSE(same_partition(0x8001, 0x8002));
}

}  // namespace
}  // namespace tutti::verbs

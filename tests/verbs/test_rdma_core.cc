// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstring>

#include "verbs/rdma_core.h"

namespace tutti::verbs {
namespace {

// Holds on any machine: with RDMA devices the table is complete, without any there is a reason and silence.
TEST(RdmaCore, case_11_IsCompleteOrSaysWhyNotAndPrintsNothing) {
  testing::internal::CaptureStderr();
  std::string why_not;
  const Api *api = rdma_core(&why_not);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(rdma_core(nullptr), api) << "one table for the process";
  if (api == nullptr) {
    EXPECT_NE(why_not, "");
    return;
  }
  // The table is pointers only, so every word after `implementation` is a member.
  static_assert(sizeof(Api) % sizeof(void *) == 0);
  for (std::size_t word = 1; word < sizeof(Api) / sizeof(void *); ++word) {
    void *member = nullptr;
    std::memcpy(&member, reinterpret_cast<const char *>(api) + word * sizeof(void *), sizeof member);
    EXPECT_NE(member, nullptr) << "member " << word;
  }
}

}  // namespace
}  // namespace tutti::verbs

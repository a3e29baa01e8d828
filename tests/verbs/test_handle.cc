// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "scripted_device.h"
#include "verbs/handle.h"

namespace tutti::verbs {
namespace {

TEST(Handle, DestroysOnceWhoeverHoldsItLast) {
  ScriptedDevice script;
  {
    PdHandle first(script.api, &script.pd);
    PdHandle second = std::move(first);
    EXPECT_FALSE(first);
    EXPECT_EQ(second.get(), &script.pd);
    PdHandle third;
    third = std::move(second);
    EXPECT_EQ(script.destroyed, 0);
  }
  EXPECT_EQ(script.destroyed, 1);
}

TEST(Handle, AssignmentDestroysWhatWasHeld) {
  ScriptedDevice script, other;
  PdHandle handle(script.api, &script.pd);
  handle = PdHandle(other.api, &other.pd);
  EXPECT_EQ(script.destroyed, 1);
  EXPECT_EQ(other.destroyed, 0);
}

TEST(Handle, AFailingDestroyIsLoggedAndGivenUp) {
  ScriptedDevice script;
  script.destroy_error = EBUSY;
  set_log(LogLevel::warn, 0);
  testing::internal::CaptureStderr();
  {
    PdHandle handle(script.api, &script.pd);
    EXPECT_FALSE(handle.reset());
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(script.destroyed, 1);
  EXPECT_NE(log.find("protection domain"), std::string::npos) << log;
  EXPECT_NE(log.find("EBUSY"), std::string::npos) << log;
}

}  // namespace
}  // namespace tutti::verbs

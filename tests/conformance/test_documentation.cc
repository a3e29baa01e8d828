// SPDX-License-Identifier: BSD-3-Clause
#include <fstream>
#include <sstream>

#include "target.h"

namespace tutti::conformance {
namespace {

TEST(Documentation, EveryKnownDeviationIsARowOfTheTable) {
  std::ifstream file(TUTTI_SOURCE_DIR "/docs/SOFTDEV.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const char *row : known_deviations())
    EXPECT_NE(text.str().find(std::string("\n| `") + row + "` |"), std::string::npos) << row;
}

}  // namespace
}  // namespace tutti::conformance

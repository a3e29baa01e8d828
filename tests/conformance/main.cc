// SPDX-License-Identifier: BSD-3-Clause
//
// test_conformance [DEVICE]: the verbs and mesh contract on a device; TUTTI_DEVICE or the software device by default.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/config.h"
#include "target.h"

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto config = tutti::read_config(tutti::process_environment(), nullptr);
  if (!config || argc > 2) {
    std::fprintf(stderr, "test_conformance: %s\n",
                 config ? "usage: test_conformance [DEVICE]" : config.error().text.c_str());
    return 2;
  }
  std::string device = argc == 2 ? argv[1] : config->device;
  if (device == "auto") device = "software";
  tutti::conformance::choose_target(device);
  std::printf("device: %s\n", device.c_str());
  return RUN_ALL_TESTS();
}

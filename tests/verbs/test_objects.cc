// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "scripted_device.h"
#include "verbs/objects.h"

namespace tutti::verbs {
namespace {

struct OpenedDevice {
  ScriptedDevice script;
  Device device;

  explicit OpenedDevice(DeviceKind kind = DeviceKind::rdma)
      : device(*Device::open(script.api, &script.device, kind, {.host = "h1"})) {}
};

template <class T>
void expect_error(const Result<T> &result, Code code, std::initializer_list<const char *> parts) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code);
  for (const char *part : parts)
    EXPECT_NE(result.error().text.find(part), std::string::npos) << part << " in: " << result.error().text;
}

TEST(Objects, AreMadeAndDestroyedThroughTheDevicesTable) {
  OpenedDevice bench;
  {
    const auto pd = alloc_pd(bench.device);
    ASSERT_TRUE(pd);
    const auto cq = create_cq(bench.device, 8, nullptr, nullptr);
    const auto srq = create_srq(bench.device, pd->get(), 8, 1, nullptr);
    const auto memory = Memory::allocate(bench.device, 1);
    const auto mr = reg_mr(bench.device, pd->get(), memory->data(), memory->size(), 0);
    EXPECT_TRUE(cq && srq && memory && mr);
    EXPECT_EQ(bench.script.destroyed, 0);
  }
  EXPECT_EQ(bench.script.destroyed, 5);
}

TEST(Objects, case_10_EveryCreateThatRunsOutOfMemoryNamesObjectSizeDeviceAndLimit) {
  OpenedDevice bench;
  bench.script.create_error = ENOMEM;
  expect_error(alloc_pd(bench.device), Code::memory, {"protection domain", "fake0", "ENOMEM", "ulimit -l"});
  expect_error(create_cq(bench.device, 77, nullptr, nullptr), Code::memory, {"of 77 entries", "fake0", "ulimit -l"});
  expect_error(create_srq(bench.device, &bench.script.pd, 78, 1, nullptr), Code::memory,
               {"of 78 entries", "ulimit -l"});
  expect_error(reg_mr(bench.device, &bench.script.pd, nullptr, 4096, 0), Code::memory, {"4096 bytes", "ulimit -l"});
  expect_error(Memory::allocate(bench.device, 4096), Code::memory, {"4096 bytes", "fake0"});
}

TEST(Objects, case_10_TheSoftwareDeviceNeverMentionsLockedMemory) {
  OpenedDevice bench(DeviceKind::software);
  bench.script.create_error = ENOMEM;
  EXPECT_EQ(create_cq(bench.device, 77, nullptr, nullptr).error().text.find("lock"), std::string::npos);
}

TEST(Objects, OtherFailuresSayWhatTheyUsuallyMean) {
  OpenedDevice bench;
  bench.script.create_error = EFAULT;
  expect_error(reg_mr(bench.device, &bench.script.pd, nullptr, 4096, 0), Code::memory, {"EFAULT", "read-only"});
  bench.script.create_error = EACCES;
  expect_error(alloc_pd(bench.device), Code::device, {"EACCES", "/dev/infiniband"});
}

TEST(Objects, MemoryIsFreedOnceByItsLastOwner) {
  OpenedDevice bench;
  {
    Result<Memory> memory = Memory::allocate(bench.device, 10);
    ASSERT_TRUE(memory);
    Memory moved = std::move(*memory);
    Memory assigned;
    assigned = std::move(moved);
    EXPECT_EQ(assigned.size(), 10u);
    EXPECT_EQ(bench.script.destroyed, 0);
  }
  EXPECT_EQ(bench.script.destroyed, 1);
}

}  // namespace
}  // namespace tutti::verbs

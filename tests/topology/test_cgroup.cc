// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "topology/cgroup.h"

namespace tutti::topology {
namespace {

// A directory that stands for "/".
class Cgroup : public testing::Test {
 protected:
  Cgroup() {
    std::string pattern = testing::TempDir() + "cgroupXXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~Cgroup() override { std::filesystem::remove_all(root_); }
  void write(const std::string &path, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void unified(const std::string &group, const std::string &mount_root = "/") {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo",
          "30 23 0:26 " + mount_root + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  void legacy(const std::string &group, const std::string &mount_root = "/") {
    write("/proc/self/cgroup", "5:memory:/other\n4:cpu,cpuacct:" + group + "\n");
    write("/proc/self/mountinfo",
          "31 23 0:27 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory\n"
          "32 23 0:28 " +
              mount_root + " /sys/fs/cgroup/cpu rw shared:6 - cgroup cgroup rw,cpu,cpuacct\n");
  }
  std::string root_;
};

TEST_F(Cgroup, NoGroupsMeanNoQuota) { EXPECT_EQ(cgroup_cpu_quota(root_), 0); }

TEST_F(Cgroup, Version2) {
  unified("/job/rank");
  write("/sys/fs/cgroup/job/rank/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root_), 1.5);
  write("/sys/fs/cgroup/job/rank/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_), 0);
}

TEST_F(Cgroup, TheTightestGroupAboveCounts) {
  unified("/job/rank");
  write("/sys/fs/cgroup/job/rank/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/job/cpu.max", "200000 100000\n");
  write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root_), 2);
}

TEST_F(Cgroup, Version1) {
  legacy("/job");
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n");
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root_), 0.5);
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cgroup_cpu_quota(root_), 0);
}

TEST_F(Cgroup, AContainerThatIsToldTheHostsPathFindsItsGroupAtTheTopOfTheMount) {
  legacy("/docker/abc", "/docker/abc");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root_), 3);
}

TEST_F(Cgroup, AGroupOutsideTheNamespaceIsReadAtTheTop) {
  unified("/../other");
  write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root_), 1);
}

}  // namespace
}  // namespace tutti::topology

#include "bespoke/base/cpu_quota.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "temporary_folder.h"

namespace bespoke {
namespace {

class CpuQuota : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }

  const testing::TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path();
};

TEST_F(CpuQuota, OfVersionTwoIsTheLeastOnTheWayUp) {
  EXPECT_TRUE(std::isinf(cpu_quota(root_)));
  write("proc/self/cgroup", "0::/user/job/step");
  EXPECT_TRUE(std::isinf(cpu_quota(root_)));
  write("sys/fs/cgroup/user/job/step/cpu.max", "max 100000");
  EXPECT_TRUE(std::isinf(cpu_quota(root_)));
  write("sys/fs/cgroup/user/job/cpu.max", "150000 100000");
  write("sys/fs/cgroup/user/cpu.max", "400000 100000");
  EXPECT_EQ(cpu_quota(root_), 1.5);
}

TEST_F(CpuQuota, InAContainerTheTopIsItsOwnGroup) {
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(cpu_quota(root_), 2);
  write("proc/self/cgroup", "0::/docker/unseen");
  EXPECT_EQ(cpu_quota(root_), 2);
}

TEST_F(CpuQuota, OfVersionOneIsRead) {
  write("proc/self/cgroup", "3:memory:/m\n2:cpu,cpuacct:/job\n1:cpuset:/c\nnot a group");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  EXPECT_TRUE(std::isinf(cpu_quota(root_)));
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000");
  EXPECT_EQ(cpu_quota(root_), 0.5);
}

TEST_F(CpuQuota, OfThisProcessIsPositive) { EXPECT_GT(cpu_quota(), 0); }

}  // namespace
}  // namespace bespoke

#include "io/drive_cores.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

#include "tests/io/temp_directory.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// A made-up /sys in which the device that this test's directory lies on is what a test says.
class DriveCores : public testing::Test {
 protected:
  // A drive on a bus device of node `numa_node`, as sysfs shows it.
  fs::path add_drive(const std::string& name, int numa_node) {
    const fs::path bus = sysfs_ / "devices/pci0000:00/0000:00:04.0" / name;
    const fs::path block = bus / "block" / name;
    fs::create_directories(block / "slaves");
    std::ofstream(bus / "numa_node") << numa_node << '\n';
    return block;
  }
  fs::path add_volume(const std::string& name, const std::vector<fs::path>& parts) {
    const fs::path block = sysfs_ / "devices/virtual/block" / name;
    fs::create_directories(block / "slaves");
    for (const fs::path& part : parts) {
      fs::create_symlink(part, block / "slaves" / part.filename());
    }
    return block;
  }
  void lie_on(const fs::path& block) {
    struct ::stat info{};
    ASSERT_EQ(::stat(directory_.path().c_str(), &info), 0);
    fs::create_directories(sysfs_ / "dev/block");
    const std::string number = fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev));
    fs::create_symlink(block, sysfs_ / "dev/block" / number);
  }
  std::optional<std::uint32_t> node() const {
    return numa_node_of_drive(directory_.path(), sysfs_.string());
  }

  TempDirectory directory_;
  fs::path sysfs_ = fs::path(directory_.path()) / "sys";
};

TEST_F(DriveCores, AreThoseOfTheBusDeviceAboveADriveOrItsPartition) {
  const fs::path partition = add_drive("nvme0n1", 1) / "nvme0n1p2";
  fs::create_directories(partition);
  lie_on(partition);
  EXPECT_EQ(node(), 1U);
}

TEST_F(DriveCores, AreThoseThatTheDrivesOfAVolumeShare) {
  const fs::path inner = add_volume("md0", {add_drive("nvme0n1", 1), add_drive("nvme1n1", 1)});
  lie_on(add_volume("dm-0", {inner}));
  EXPECT_EQ(node(), 1U);
}

TEST_F(DriveCores, AreNotKnownForDrivesInDifferentNodes) {
  lie_on(add_volume("md0", {add_drive("nvme0n1", 0), add_drive("nvme1n1", 1)}));
  EXPECT_EQ(node(), std::nullopt);
}

TEST_F(DriveCores, AreNotKnownWhereOneDriveDoesNotSay) {
  lie_on(add_volume("md0", {add_drive("nvme0n1", 1), add_drive("vdb", -1)}));
  EXPECT_EQ(node(), std::nullopt);
}

TEST_F(DriveCores, AreNotKnownWithoutADevice) {
  fs::create_directories(sysfs_);
  EXPECT_EQ(node(), std::nullopt);
  EXPECT_EQ(numa_node_of_drive(directory_ / "missing"), std::nullopt);
  EXPECT_TRUE(cores_near_drives({}).empty());
  EXPECT_TRUE(cores_near_drives({directory_ / "missing"}).empty());
}

TEST_F(DriveCores, OfThisMachineCanBeAskedFor) {
  for (const std::uint32_t cpu : cores_near_drives({directory_.path()})) {
    EXPECT_LT(cpu, 1U << 16);
  }
}

}  // namespace
}  // namespace penstock

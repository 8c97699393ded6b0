#include "swap/store/store_drives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "alloc/bytes.h"
#include "io/sim_disk.h"
#include "tests/io/temp_directory.h"
#include "tests/store/flaky_file_system.h"

namespace penstock {
namespace {

class SmallDriveTest : public testing::Test {
 protected:
  SmallDriveTest() {
    disk_.make_directories("/drive").value();
    drives_.add(disk_.create_scratch("/drive", DirectMode::kBuffered).value(), {"/drive", {}, {}});
  }
  std::uint64_t refused_for_space() const {
    return disk_.faults_made()[static_cast<std::size_t>(SimFault::kNoSpace)];
  }

  SimDisk disk_{{.capacity_bytes = 40 * kMiB}};
  StoreDrives drives_{disk_};
};

TEST_F(SmallDriveTest, AGrowthNeverAsksForMoreThanIsFree) {
  ASSERT_TRUE(drives_.reserve(kMiB).has_value());
  EXPECT_GE(*disk_.free_bytes("/drive"), 30 * kMiB) << "the rest is for others";
  while (*disk_.free_bytes("/drive") >= kMiB) {
    ASSERT_TRUE(drives_.reserve(kMiB).has_value());
  }
  EXPECT_EQ(refused_for_space(), 0U);
}

TEST_F(SmallDriveTest, WhatCannotFitIsNotAskedFor) {
  ASSERT_TRUE(drives_.reserve(30 * kMiB).has_value());
  const auto refused = drives_.reserve(30 * kMiB);
  ASSERT_TRUE(refused.has_error());
  EXPECT_TRUE(refused.error().is_full());
  EXPECT_EQ(refused.error().path, "/drive");
  EXPECT_THAT(refused.error().message, testing::HasSubstr("10.0 MiB free there"));
  EXPECT_EQ(refused_for_space(), 0U) << "one block is there";
}

TEST(StoreDrives, WhatIsLargerThanAGrowthIsAskedForOnce) {
  const TempDirectory directory;
  FlakyFileSystem system;
  StoreDrives drives(system);
  drives.add(system.create_scratch(directory / "", DirectMode::kBuffered).value(),
             {directory / "", {}, {}});
  system.set_fault(
      [](const std::string& call) { return call.starts_with("reserve") ? EDQUOT : 0; });
  system.take_calls();
  ASSERT_TRUE(drives.reserve(StoreDrives::kGrowthBytes + kMiB).has_error());
  EXPECT_EQ(system.take_calls().size(), 1U);
}

}  // namespace
}  // namespace penstock

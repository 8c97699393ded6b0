#include "swap/store/store_drives.h"

#include <gtest/gtest.h>

#include "alloc/bytes.h"
#include "io/sim_disk.h"

namespace penstock {
namespace {

std::uint64_t refused_for_space(const SimDisk& disk) {
  return disk.faults_made()[static_cast<std::size_t>(SimFault::kNoSpace)];
}

TEST(StoreDrives, AGrowthNeverAsksForMoreThanIsFree) {
  SimDiskOptions options;
  options.capacity_bytes = 40 * kMiB;
  SimDisk disk(options);
  ASSERT_TRUE(disk.make_directories("/drive").has_value());
  StoreDrives drives(disk);
  drives.add(disk.create_scratch("/drive", DirectMode::kBuffered).value(), {"/drive", {}, {}});
  ASSERT_TRUE(drives.reserve(kMiB).has_value());
  EXPECT_GE(*disk.free_bytes("/drive"), 30 * kMiB) << "the rest is for others";
  while (*disk.free_bytes("/drive") >= kMiB) {
    ASSERT_TRUE(drives.reserve(kMiB).has_value());
  }
  EXPECT_EQ(refused_for_space(disk), 0U);
}

}  // namespace
}  // namespace penstock

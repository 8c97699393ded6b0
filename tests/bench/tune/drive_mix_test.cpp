#include "bench/tune/drive_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "alloc/bytes.h"

namespace penstock::bench {
namespace {

PlanTensor tensor(std::uint64_t bytes, std::uint32_t reads, std::uint32_t writes,
                  bool swappable = true) {
  PlanTensor made;
  made.bytes = bytes;
  made.reads_per_step = reads;
  made.writes_per_step = writes;
  made.swappable = swappable;
  return made;
}

TEST(DriveMixTest, AStepIsEverythingThatMayLeaveMemory) {
  const std::array model{tensor(2 * kMiB, 2, 1), tensor(kMiB, 2, 1, false), tensor(6 * kMiB, 1, 1)};
  const DriveMix mix = drive_mix(model).value();
  EXPECT_EQ(mix.tensors, 2U);
  EXPECT_EQ(mix.bytes, 8 * kMiB);
  EXPECT_EQ(mix.step_read_bytes, 10 * kMiB);
  EXPECT_EQ(mix.step_write_bytes, 8 * kMiB);
  EXPECT_DOUBLE_EQ(mix.read_share(), 10.0 / 18);
}

TEST(DriveMixTest, RequestsAreWholeBlocksNoLargerThanTheEnginesOrTheTensors) {
  EXPECT_EQ(drive_mix(std::array{tensor(311'164'928, 1, 0)})->request_bytes(), kMiB);
  const std::array small{tensor(5001, 1, 0), tensor(7001, 1, 0)};
  EXPECT_EQ(drive_mix(small)->request_bytes(), 8 * kKiB);
}

TEST(DriveMixTest, NothingToTune) {
  const Result<DriveMix> mix = drive_mix(std::array{tensor(kMiB, 2, 1, false)});
  ASSERT_TRUE(mix.has_error());
  EXPECT_THAT(mix.error().message, testing::HasSubstr("offload_param.device"));
}

}  // namespace
}  // namespace penstock::bench

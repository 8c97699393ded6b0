#include "bench/tune/drive_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "alloc/bytes.h"

namespace penstock::bench {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Le;

PlanTensor tensor(std::uint64_t bytes, std::uint32_t reads, std::uint32_t writes) {
  PlanTensor made;
  made.bytes = bytes;
  made.reads_per_step = reads;
  made.writes_per_step = writes;
  return made;
}

TEST(DriveMixTest, AStepIsEverythingThatMayLeaveMemory) {
  PlanTensor kept = tensor(kMiB, 2, 1);
  kept.swappable = false;
  const DriveMix mix =
      drive_mix({tensor(2 * kMiB, 2, 1), kept, tensor(6 * kMiB, 1, 1)}, kGiB).value();
  EXPECT_THAT(mix.tensors, ElementsAre(2 * kMiB, 6 * kMiB));
  EXPECT_EQ(mix.step_read_bytes, 10 * kMiB);
  EXPECT_EQ(mix.step_write_bytes, 8 * kMiB);
  EXPECT_DOUBLE_EQ(mix.read_share(), 10.0 / 18);
}

TEST(DriveMixTest, OddSizesAreRoundedUpToBlocksAndHugeOnesCut) {
  const DriveMix mix = drive_mix({tensor(5001, 1, 0), tensor(311'164'928, 1, 0)}, kGiB).value();
  EXPECT_EQ(mix.tensors.front(), 8 * kKiB);
  EXPECT_EQ(mix.tensors.size(), 1U + 5);
  EXPECT_THAT(mix.tensors, Each(Le(kMixTensorBytesMax)));
  EXPECT_GE(mix.bytes(), 311'164'928U);
}

TEST(DriveMixTest, ASubsetKeepsTheDistributionOfSizes) {
  std::vector<PlanTensor> model;
  for (int layer = 0; layer < 100; ++layer) {
    model.push_back(tensor(kMiB, 2, 1));
    model.push_back(tensor(kMiB, 2, 1));
    model.push_back(tensor(8 * kMiB, 2, 1));
  }
  const DriveMix mix = drive_mix(model, 100 * kMiB).value();
  EXPECT_EQ(std::ranges::count(mix.tensors, kMiB), 20);
  EXPECT_EQ(std::ranges::count(mix.tensors, 8 * kMiB), 10);
  EXPECT_EQ(mix.step_read_bytes, 2 * 1000 * kMiB) << "the whole step's";
}

TEST(DriveMixTest, NothingToTune) {
  PlanTensor kept = tensor(kMiB, 2, 1);
  kept.swappable = false;
  const Result<DriveMix> mix = drive_mix({kept}, kGiB);
  ASSERT_TRUE(mix.has_error());
  EXPECT_THAT(mix.error().message, testing::HasSubstr("offload_param.device"));
}

}  // namespace
}  // namespace penstock::bench

#include "swap/plan/size_group.h"

#include <gtest/gtest.h>

#include "alloc/bytes.h"

namespace penstock {
namespace {

TEST(SizeGroupTest, RegularSizesAreNearExact) {
  const std::vector<SizeCount> sizes{{4 * kMiB, 56}, {8 * kMiB, 56}, {12 * kMiB, 84}};
  const std::vector<SizeGroup> groups = make_size_groups(sizes, {});
  ASSERT_EQ(groups.size(), 3U);
  for (const SizeGroup& group : groups) {
    EXPECT_EQ(group.outlier, OutlierReason::kNone);
    EXPECT_EQ(group.slot_bytes, group.largest_bytes);
  }
}

TEST(SizeGroupTest, TheLimitIsACeilingForRegularSizes) {
  const std::vector<SizeCount> sizes{{4 * kMiB, 56}, {12 * kMiB, 84}};
  const std::vector<SizeGroup> groups = make_size_groups(sizes, {12 * kMiB - 1, 0, {}});
  EXPECT_EQ(groups[0].outlier, OutlierReason::kNone);
  EXPECT_EQ(groups[1].outlier, OutlierReason::kAboveLimit);
  EXPECT_EQ(make_size_groups(sizes, {12 * kMiB, 0, {}})[1].outlier, OutlierReason::kNone);
}

TEST(SizeGroupTest, TheCeilingParts2PercentOfOneSize) {
  const std::vector<SizeCount> sizes{{1000 * kBlockBytes, 5}, {1001 * kBlockBytes, 5}};
  EXPECT_EQ(make_size_groups(sizes, {}).size(), 1U);
  const std::vector<SizeGroup> parted = make_size_groups(sizes, {1000 * kBlockBytes, 0, {}});
  ASSERT_EQ(parted.size(), 2U);
  EXPECT_EQ(group_of(parted, 1000 * kBlockBytes), 0U);
  EXPECT_EQ(group_of(parted, 1001 * kBlockBytes), 1U);
}

TEST(SizeGroupTest, OneOrTwoMuchLargerOnesAreLone) {
  std::vector<SizeCount> sizes{{12 * kMiB, 84}, {297 * kMiB, 1}};
  EXPECT_EQ(make_size_groups(sizes, {})[1].outlier, OutlierReason::kLone);
  sizes[1].tensors = 2;
  EXPECT_EQ(make_size_groups(sizes, {})[1].outlier, OutlierReason::kLone) << "embedding and head";
  sizes[1].tensors = 48;
  EXPECT_EQ(make_size_groups(sizes, {})[1].outlier, OutlierReason::kNone) << "experts of 48 layers";
  sizes[1] = {48 * kMiB, 1};
  EXPECT_EQ(make_size_groups(sizes, {})[1].outlier, OutlierReason::kNone) << "four times, not more";
  EXPECT_EQ(make_size_groups(std::vector<SizeCount>{{297 * kMiB, 1}}, {})[0].outlier,
            OutlierReason::kNone)
      << "nothing to be larger than";
}

TEST(SizeGroupTest, TwoSlotsMustFit) {
  const std::vector<SizeCount> sizes{{4 * kMiB, 56}, {12 * kMiB, 84}};
  EXPECT_EQ(make_size_groups(sizes, {0, 24 * kMiB, {}})[1].outlier, OutlierReason::kNone);
  EXPECT_EQ(make_size_groups(sizes, {0, 24 * kMiB - 1, {}})[1].outlier,
            OutlierReason::kTwoSlotsTooMany);
}

TEST(SizeGroupTest, ListedClassesTakeWhatTheyHoldWithoutMuchWaste) {
  const std::vector<std::uint64_t> slots{8 * kMiB, 12 * kMiB};
  const std::vector<SizeCount> sizes{
      {4 * kMiB, 1}, {7 * kMiB, 2}, {8 * kMiB, 3}, {12 * kMiB, 4}, {13 * kMiB, 5}};
  const std::vector<SizeGroup> groups = make_size_groups(sizes, {0, 0, slots});
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups[0].slot_bytes, 4 * kMiB) << "half of the slot would be wasted: its own";
  EXPECT_EQ(groups[1].slot_bytes, 8 * kMiB);
  EXPECT_EQ(groups[1].tensors, 5U) << "7 MiB waste exactly an eighth";
  EXPECT_EQ(groups[2].slot_bytes, 12 * kMiB);
  EXPECT_EQ(groups[3].outlier, OutlierReason::kAboveSizeClasses);
}

TEST(SizeGroupTest, SmallSizesThatShareABlockShareAGroup) {
  const std::vector<SizeCount> sizes{{100, 1}, {5000, 1}, {6000, 1}, {8192, 1}, {9000, 1}};
  const std::vector<SizeGroup> groups = make_size_groups(sizes, {});
  for (const SizeCount& size : sizes) {
    EXPECT_GE(groups[group_of(groups, size.bytes)].slot_bytes, size.bytes);
  }
}

}  // namespace
}  // namespace penstock

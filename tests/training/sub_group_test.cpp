#include "bindings/deepspeed/sub_group.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(SubGroupTest, ClosesAsSoonAsItIsLargeEnough) {
  const std::vector<std::uint64_t> partitions{155, 2, 1, 1, 2, 3, 3, 3};
  const std::vector<SubGroup> groups = make_sub_groups(partitions, 5);
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups[0].elements, 155U) << "one parameter may be larger than a sub-group";
  EXPECT_EQ(groups[1].elements, 6U) << "2 + 1 + 1 + 2";
  EXPECT_EQ(groups[2].elements, 6U);
  EXPECT_EQ(groups[3].elements, 3U) << "the last takes what is left";
  EXPECT_EQ(groups[3].end, partitions.size());
}

TEST(SubGroupTest, ALargeSizeMakesOne) {
  const std::vector<std::uint64_t> partitions{1, 2, 3};
  ASSERT_EQ(make_sub_groups(partitions, 1'000'000'000).size(), 1U);
  EXPECT_EQ(make_sub_groups(partitions, 1'000'000'000)[0].elements, 6U);
  EXPECT_TRUE(make_sub_groups({}, 5).empty());
  EXPECT_EQ(make_sub_groups(partitions, 0).size(), 3U);
}

}  // namespace
}  // namespace penstock

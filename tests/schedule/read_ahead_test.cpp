#include "swap/schedule/read_ahead.h"

#include <gtest/gtest.h>

#include <ranges>
#include <vector>

#include "tests/schedule/tensor_ids.h"

namespace penstock {
namespace {

std::vector<TensorId> in_order(const ReadAhead& ahead) {
  const auto tensors = std::views::values(ahead.in_order());
  return {tensors.begin(), tensors.end()};
}

TEST(ReadAhead, CountsBytesUntilUse) {
  ReadAhead ahead;
  ahead.begin(TensorId{7}, 100);
  ahead.begin(TensorId{3}, 20);
  EXPECT_EQ(ahead.bytes(), 120U);
  ahead.end(TensorId{7});
  ahead.end(TensorId{7});
  ahead.end(TensorId{5});
  EXPECT_EQ(ahead.bytes(), 20U);
  EXPECT_FALSE(ahead.holds(TensorId{7}));
  EXPECT_TRUE(ahead.holds(TensorId{3}));
}

TEST(ReadAhead, KeepsTheOrderInWhichReadsBegan) {
  ReadAhead ahead;
  ahead.begin(TensorId{7}, 1);
  ahead.begin(TensorId{3}, 1);
  ahead.begin(TensorId{5}, 1);
  ahead.end(TensorId{7});
  ahead.begin(TensorId{7}, 1);
  EXPECT_EQ(in_order(ahead), test::tensors({3, 5, 7}));
}

TEST(ReadAheadDeathTest, OneReadAtATime) {
  ReadAhead ahead;
  ahead.begin(TensorId{1}, 1);
  EXPECT_DEATH(ahead.begin(TensorId{1}, 1), "already");
}

}  // namespace
}  // namespace penstock

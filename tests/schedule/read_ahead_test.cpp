#include "swap/schedule/read_ahead.h"

#include <gtest/gtest.h>

#include <ranges>
#include <vector>

namespace penstock {
namespace {

std::vector<ReadAhead::Key> keys_of(const ReadAhead& ahead) {
  const auto keys = std::views::values(ahead.in_order());
  return {keys.begin(), keys.end()};
}

TEST(ReadAhead, CountsBytesUntilUse) {
  ReadAhead ahead;
  ahead.begin(7, 100);
  ahead.begin(3, 20);
  EXPECT_EQ(ahead.bytes(), 120U);
  ahead.end(7);
  ahead.end(7);
  ahead.end(5);
  EXPECT_EQ(ahead.bytes(), 20U);
  EXPECT_FALSE(ahead.holds(7));
  EXPECT_TRUE(ahead.holds(3));
}

TEST(ReadAhead, KeepsTheOrderInWhichReadsBegan) {
  ReadAhead ahead;
  ahead.begin(7, 1);
  ahead.begin(3, 1);
  ahead.begin(5, 1);
  ahead.end(7);
  ahead.begin(7, 1);
  EXPECT_EQ(keys_of(ahead), (std::vector<ReadAhead::Key>{3, 5, 7}));
}

TEST(ReadAheadDeathTest, OneReadAtATime) {
  ReadAhead ahead;
  ahead.begin(1, 1);
  EXPECT_DEATH(ahead.begin(1, 1), "already");
}

}  // namespace
}  // namespace penstock

#include "bench/tune/advantage.h"

#include <gtest/gtest.h>

namespace penstock::bench {
namespace {

std::function<Result<MeasuredRun>()> side(double bytes_per_second) {
  return [bytes_per_second]() -> Result<MeasuredRun> {
    return MeasuredRun{.read_bytes = 1'000'000, .seconds = 1e6 / bytes_per_second};
  };
}

TEST(AdvantageTest, OfSixTurns) {
  const auto found = compare_in_turns(side(1e9), side(1.5e9), {.rounds_max = 6});
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->ratio, 1.5, 1e-9);
  EXPECT_EQ(found->turns, 6U);
  EXPECT_NEAR(found->after, 1.5e9, 1);
  EXPECT_TRUE(found->is_real());
}

TEST(AdvantageTest, OneThatFailsOrOneTurnSaysNothing) {
  const auto fails = []() -> Result<MeasuredRun> { return fault(Fault::kUnsupported, "no"); };
  EXPECT_FALSE(compare_in_turns(side(1), fails, {.rounds_max = 6}).has_value());
  EXPECT_FALSE(compare_in_turns(fails, side(1), {.rounds_max = 6}).has_value());
  int runs = 0;
  const RoundLimits one_turn{.rounds_max = 6, .interrupted = [&runs] { return ++runs > 3; }};
  EXPECT_FALSE(compare_in_turns(side(1), side(2), one_turn).has_value());
}

TEST(AdvantageTest, ThreeTurnsAndAnIntervalAboveOne) {
  EXPECT_TRUE((Advantage{1.1, {1.01, 1.2}, 3, 1.1}).is_real());
  EXPECT_FALSE((Advantage{1.1, {1.01, 1.2}, 2, 1.1}).is_real());
  EXPECT_FALSE((Advantage{1.1, {0.99, 1.2}, 6, 1.1}).is_real());
  EXPECT_FALSE((Advantage{1.02, {1.01, 1.2}, 6, 1.1}).is_real());
}

}  // namespace
}  // namespace penstock::bench

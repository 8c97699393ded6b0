#include "bench/pair/pair_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::bench {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

using Values = std::vector<double>;

TEST(PairStatisticsTest, QuantilesLieBetweenNeighbours) {
  const Values values{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0.75), 3.25);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
}

TEST(PairStatisticsTest, MedianAndSpread) {
  EXPECT_DOUBLE_EQ(median(Values{7}), 7);
  EXPECT_DOUBLE_EQ(median(Values{9, 1, 5}), 5);
  EXPECT_DOUBLE_EQ(median(Values{9, 1}), 5);
  EXPECT_DOUBLE_EQ(interquartile_range(Values{1, 2, 3, 4}), 1.5);
  EXPECT_DOUBLE_EQ(interquartile_range(Values{7}), 0);
}

TEST(PairStatisticsTest, OneValueAndEqualOnesHaveNoSpread) {
  EXPECT_EQ(median_interval(Values{0.97}), (Interval{0.97, 0.97}));
  EXPECT_EQ(median_interval(Values{2, 2, 2, 2}), (Interval{2, 2}));
}

// Two values drawn from {0, 1} have the median 0 in a quarter of all cases, 0.5 in half of them and
// 1 in the last quarter.
TEST(PairStatisticsTest, TwoValues) {
  const Values values{0, 1};
  EXPECT_EQ(median_interval(values), (Interval{0, 1}));
  EXPECT_EQ(median_interval(values, {.confidence = 0.4}), (Interval{0.5, 0.5}));
}

// Three drawn from {1, 2, 3}: 1 in 7 of 27 cases, 2 in 13, 3 in 7.
TEST(PairStatisticsTest, ThreeValues) {
  const Values values{3, 1, 2};
  EXPECT_EQ(median_interval(values, {.confidence = 0.4}), (Interval{2, 2}));
  EXPECT_EQ(median_interval(values, {.confidence = 0.6}), (Interval{1, 3}));
}

// 3, 4.5 and 6 over 2: where the denominator is certain, the interval is the numerator's,
// divided.
TEST(PairStatisticsTest, RatioOverACertainDenominator) {
  EXPECT_EQ(median_ratio_interval(Values{3, 6}, Values{2, 2, 2}), (Interval{1.5, 3}));
  EXPECT_EQ(median_ratio_interval(Values{3, 6}, Values{2, 2}, {.confidence = 0.4}),
            (Interval{2.25, 2.25}));
}

// Each side is an end in a quarter of all cases, both ends that make the smallest ratio meet in a
// sixteenth: within 95 % they show, within 80 % they do not.
TEST(PairStatisticsTest, RatioOfTwoUncertainMedians) {
  const Values numerator{1, 3};
  const Values denominator{1, 2};
  EXPECT_EQ(median_ratio_interval(numerator, denominator), (Interval{0.5, 3}));
  const Interval narrower = median_ratio_interval(numerator, denominator, {.confidence = 0.8});
  EXPECT_DOUBLE_EQ(narrower.low, 1 / 1.5);
  EXPECT_DOUBLE_EQ(narrower.high, 2);
}

TEST(PairStatisticsTest, Differences) {
  EXPECT_EQ(median_difference_interval(Values{3, 6}, Values{2, 2}), (Interval{1, 4}));
  EXPECT_EQ(median_difference_interval(Values{1}, Values{3}), (Interval{-2, -2}));
}

TEST(PairStatisticsTest, ASeedGivesTheSameIntervalEveryTime) {
  const Values values{0.91, 1.04, 0.99, 1.2, 0.97, 1.01, 0.88, 1.0, 1.07, 0.95};
  const Interval once = median_interval(values, {.seed = 7});
  EXPECT_EQ(once, median_interval(values, {.seed = 7}));
  EXPECT_THAT(median(values), AllOf(Ge(once.low), Le(once.high)));
  EXPECT_LT(once.low, once.high);
}

}  // namespace
}  // namespace penstock::bench

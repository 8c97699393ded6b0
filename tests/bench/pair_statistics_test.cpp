#include "bench/pair/pair_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

namespace penstock::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::Le;
using testing::StartsWith;

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

// A peer that took no time by its own clock.
TEST(PairStatisticsTest, InfiniteOnes) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  EXPECT_DOUBLE_EQ(median(Values{1, 2, kInfinite}), 2);
  EXPECT_EQ(median(Values{1, kInfinite, kInfinite}), kInfinite);
  EXPECT_EQ(median_interval(Values{1, kInfinite}), (Interval{1, kInfinite}));
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
  EXPECT_EQ(median_interval(values, 0.4), (Interval{0.5, 0.5}));
}

// Three drawn from {1, 2, 3}: 1 in 7 of 27 cases, 2 in 13, 3 in 7.
TEST(PairStatisticsTest, ThreeValues) {
  const Values values{3, 1, 2};
  EXPECT_EQ(median_interval(values, 0.4), (Interval{2, 2}));
  EXPECT_EQ(median_interval(values, 0.6), (Interval{1, 3}));
}

// 3, 4.5 and 6 over 2: where the denominator is certain, the interval is the numerator's,
// divided.
TEST(PairStatisticsTest, RatioOverACertainDenominator) {
  EXPECT_EQ(median_interval(Values{3, 6}, Values{2, 2, 2}, std::divides{}), (Interval{1.5, 3}));
  EXPECT_EQ(median_interval(Values{3, 6}, Values{2, 2}, std::divides{}, 0.4),
            (Interval{2.25, 2.25}));
}

// Each side is an end in a quarter of all cases, both ends that make the smallest ratio meet in a
// sixteenth: within 95 % they show, within 80 % they do not.
TEST(PairStatisticsTest, RatioOfTwoUncertainMedians) {
  const Values numerator{1, 3};
  const Values denominator{1, 2};
  EXPECT_EQ(median_interval(numerator, denominator, std::divides{}), (Interval{0.5, 3}));
  const Interval narrower = median_interval(numerator, denominator, std::divides{}, 0.8);
  EXPECT_DOUBLE_EQ(narrower.low, 1 / 1.5);
  EXPECT_DOUBLE_EQ(narrower.high, 2);
}

TEST(PairStatisticsTest, Differences) {
  EXPECT_EQ(median_interval(Values{3, 6}, Values{2, 2}, std::minus{}), (Interval{1, 4}));
  EXPECT_EQ(median_interval(Values{1}, Values{3}, std::minus{}), (Interval{-2, -2}));
}

TEST(PairStatisticsTest, TheSameIntervalEveryTime) {
  const Values values{0.91, 1.04, 0.99, 1.2, 0.97, 1.01, 0.88, 1.0, 1.07, 0.95};
  const Interval once = median_interval(values);
  EXPECT_EQ(once, median_interval(values));
  EXPECT_THAT(median(values), AllOf(Ge(once.low), Le(once.high)));
  EXPECT_LT(once.low, once.high);
}

MeasuredRun run(std::uint64_t bytes, double seconds, double cpu_seconds) {
  return {.read_bytes = bytes, .seconds = seconds, .cpu_seconds = cpu_seconds};
}

TEST(MeasuredRunTest, BandwidthAndCost) {
  const MeasuredRun both{
      .read_bytes = 1'500'000'000, .write_bytes = 500'000'000, .seconds = 4, .cpu_seconds = 0.02};
  EXPECT_DOUBLE_EQ(both.bytes_per_second(), 5e8);
  EXPECT_DOUBLE_EQ(both.cpu_ms_per_gb(), 10);
}

// Bandwidths 100/100, 120/100, 90/100, 100/50; CPU a byte 1/1, 1/2, 2/1, 1/1.
TEST(CompareRunsTest, RatiosOfFourPairs) {
  const std::vector<MeasuredRun> ours{run(100, 1, 1), run(120, 1, 1.2), run(90, 1, 1.8),
                                      run(100, 1, 1)};
  const std::vector<MeasuredRun> theirs{run(100, 1, 1), run(100, 1, 2), run(100, 1, 1),
                                        run(100, 2, 1)};
  const PairResult result = compare_runs(ours, theirs);
  EXPECT_EQ(result.cpu.all.size(), 4U);
  EXPECT_THAT(result.bandwidth.all, ElementsAre(1, 1.2, 0.9, 2));
  EXPECT_DOUBLE_EQ(result.bandwidth.median, 1.1);
  EXPECT_DOUBLE_EQ(result.bandwidth.iqr, 1.4 - 0.975);
  EXPECT_GE(result.bandwidth.low, 0.9);
  EXPECT_LE(result.bandwidth.high, 2);
  EXPECT_LT(result.bandwidth.low, result.bandwidth.high);
  EXPECT_DOUBLE_EQ(result.cpu.median, 1);
}

// A clock of milliseconds needs 50 of them; one that has no steps needs no time.
TEST(CompareRunsTest, ARunThatIsTooShortForItsClock) {
  const std::vector<MeasuredRun> ours{run(100, 0.001, 1), run(100, 0.001, 1)};
  std::vector<MeasuredRun> theirs{run(100, 0.05, 1), run(100, 0.006, 1)};
  EXPECT_EQ(compare_runs(ours, theirs).warning(), "");
  theirs[0].tick_seconds = 0.001;
  theirs[1].tick_seconds = 0.001;
  PairResult result = compare_runs(ours, theirs);
  result.peer = "fio";
  EXPECT_THAT(result.warning(), StartsWith("fio was done in 6 ms,"));
  theirs[1].seconds = 0.05;
  EXPECT_EQ(compare_runs(ours, theirs).warning(), "");
}

}  // namespace
}  // namespace penstock::bench

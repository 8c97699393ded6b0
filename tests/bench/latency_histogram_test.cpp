#include "bench/measure/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace penstock::bench {
namespace {

TEST(LatencyHistogramTest, NothingCounted) {
  const LatencyHistogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.min(), 0U);
  EXPECT_EQ(histogram.max(), 0U);
  EXPECT_EQ(histogram.percentile(99), 0U);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.standard_deviation(), 0);
}

// By hand from fio's stat.h: below 128 a bucket a nanosecond, then 64 for each doubling, named by
// their middle. 10,777,938 is what fio 3.33 once gave as the maximum of a run whose upper
// percentiles it printed as 10,813,440.
TEST(LatencyHistogramTest, BucketsAreFios) {
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> middles = {{0, 0},
                                                                        {1, 1},
                                                                        {127, 127},
                                                                        {128, 129},
                                                                        {129, 129},
                                                                        {130, 131},
                                                                        {255, 255},
                                                                        {256, 258},
                                                                        {1000, 1004},
                                                                        {247056, 246784},
                                                                        {374784, 374784},
                                                                        {10777938, 10813440},
                                                                        {20416000, 20316160}};
  for (const auto& [ns, middle] : middles) {
    LatencyHistogram histogram;
    histogram.add(ns);
    EXPECT_EQ(histogram.percentile(50), middle) << ns;
    EXPECT_EQ(histogram.min(), ns);
    EXPECT_EQ(histogram.max(), ns);
  }
}

TEST(LatencyHistogramTest, WhatIsLongerThanAllBucketsIsInTheLast) {
  LatencyHistogram histogram;
  histogram.add(std::uint64_t{1} << 40U);
  histogram.add(std::uint64_t{1} << 60U);
  EXPECT_EQ(histogram.percentile(1), histogram.percentile(100));
  EXPECT_EQ(histogram.max(), std::uint64_t{1} << 60U);
}

TEST(LatencyHistogramTest, MeanAndDeviationByHand) {
  LatencyHistogram histogram;
  for (const std::uint64_t ns : {2U, 4U, 4U, 4U, 5U, 5U, 7U, 9U}) {
    histogram.add(ns);
  }
  EXPECT_DOUBLE_EQ(histogram.mean(), 5);
  EXPECT_NEAR(histogram.standard_deviation(), std::sqrt(32.0 / 7), 1e-12);
  EXPECT_EQ(histogram.percentile(50), 4U);
  EXPECT_EQ(histogram.percentile(75), 5U);
  EXPECT_EQ(histogram.percentile(100), 9U);
  EXPECT_EQ(histogram.percentile(0), 2U);
}

TEST(LatencyHistogramTest, PercentilesAreThoseOfASortedListWithinABucket) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> latency(12, 1.5);
  std::vector<std::uint64_t> all;
  LatencyHistogram first;
  LatencyHistogram second;
  for (int index = 0; index < 20000; ++index) {
    all.push_back(static_cast<std::uint64_t>(latency(random)));
    (index % 3 == 0 ? first : second).add(all.back());
  }
  first.merge(second);
  std::ranges::sort(all);
  for (const double percent : {1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    const auto place = static_cast<std::size_t>(std::ceil(percent / 100 * 20000)) - 1;
    const auto exact = static_cast<double>(all[place]);
    EXPECT_NEAR(static_cast<double>(first.percentile(percent)), exact, exact / 64 + 1) << percent;
  }
  EXPECT_EQ(first.count(), all.size());
  EXPECT_EQ(first.min(), all.front());
  EXPECT_EQ(first.max(), all.back());
  const double sum = std::accumulate(all.begin(), all.end(), 0.0);
  EXPECT_NEAR(first.mean(), sum / 20000, 1e-3);
}

}  // namespace
}  // namespace penstock::bench

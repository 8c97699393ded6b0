#include "bench/measure/bandwidth_meter.h"

#include <gtest/gtest.h>

#include "bench/measure/job_result.h"
#include "tests/bench/milliseconds.h"

namespace penstock::bench {
namespace {

std::uint64_t sum_of(const std::vector<BandwidthSample>& samples) {
  std::uint64_t bytes = 0;
  for (const BandwidthSample& sample : samples) {
    bytes += sample.bytes;
  }
  return bytes;
}

TEST(BandwidthMeterTest, IntervalsWithoutBytesAreThere) {
  BandwidthMeter meter;
  meter.add(3 * kMs, 100);
  meter.add(9 * kMs, 10);
  meter.add(35 * kMs, 7);
  const std::vector<BandwidthSample> samples = meter.samples(38 * kMs);
  ASSERT_EQ(samples.size(), 4U);
  EXPECT_EQ(samples[0].bytes, 110U);
  EXPECT_EQ(samples[0].at_ns, 10 * kMs);
  EXPECT_EQ(samples[1].bytes, 0U);
  EXPECT_EQ(samples[3].bytes, 7U);
  EXPECT_EQ(samples[3].at_ns, 38 * kMs) << "the last one ends with the run";
}

TEST(BandwidthMeterTest, NothingMovedIsNoSample) {
  BandwidthMeter meter;
  EXPECT_TRUE(meter.samples(1000 * kMs).empty());
  meter.add(5, 5);
  meter.clear();
  EXPECT_TRUE(meter.samples(1000 * kMs).empty());
}

TEST(BandwidthMeterTest, ALongRunDoublesItsIntervals) {
  BandwidthMeter meter;
  constexpr std::uint64_t kHourMs = 3'600'000;
  for (std::uint64_t at = 0; at < kHourMs; at += 1000) {
    meter.add(at * kMs, 3);
  }
  const std::vector<BandwidthSample> samples = meter.samples(kHourMs * kMs);
  EXPECT_EQ(sum_of(samples), 3 * 3600U);
  EXPECT_LE(samples.size(), BandwidthMeter::kIntervals);
  EXPECT_GT(samples.size(), BandwidthMeter::kIntervals / 2);
  EXPECT_EQ(samples[0].at_ns % BandwidthMeter::kShortestNs, 0U);
}

TEST(JobResultTest, ThreadsTogether) {
  JobResult first;
  first.read = {
      .io_bytes = 100, .total_ios = 10, .runtime_ns = 5 * kMs, .clat = {}, .bandwidth = {}};
  first.read.bandwidth = {{10 * kMs, 60}, {20 * kMs, 40}};
  first.user_seconds = 1;
  first.elapsed_ns = 5 * kMs;
  JobResult second = first;
  second.read.runtime_ns = 4 * kMs;
  second.read.bandwidth = {{20 * kMs, 70}, {40 * kMs, 30}};
  second.error = 5;
  second.error_message = "no";
  first.merge(second);
  EXPECT_EQ(first.threads, 2U);
  EXPECT_EQ(first.read.io_bytes, 200U);
  EXPECT_EQ(first.read.total_ios, 20U);
  EXPECT_EQ(first.read.runtime_ns, 5 * kMs);
  EXPECT_DOUBLE_EQ(first.read.bytes_per_second(), 200 / 0.005);
  EXPECT_EQ(first.user_seconds, 2);
  EXPECT_EQ(first.error, 5);
  ASSERT_EQ(first.read.bandwidth.size(), 2U) << "the longer intervals hold both";
  EXPECT_EQ(first.read.bandwidth[0].bytes, 170U);
  EXPECT_EQ(first.read.bandwidth[1].bytes, 30U);
}

}  // namespace
}  // namespace penstock::bench

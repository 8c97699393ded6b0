#include "bench/measure/timeline.h"

#include <gtest/gtest.h>

#include "bench/measure/job_result.h"
#include "tests/alloc/allocation_counter.h"
#include "tests/bench/milliseconds.h"

namespace penstock::bench {
namespace {

Sample moment(std::uint64_t at_ns, std::uint64_t read_bytes) {
  Sample moment;
  moment.at_ns = at_ns;
  moment.read_bytes = read_bytes;
  return moment;
}

std::uint64_t read_bytes(const std::vector<Sample>& samples) {
  std::uint64_t bytes = 0;
  for (const Sample& sample : samples) {
    bytes += sample.read_bytes;
  }
  return bytes;
}

TEST(TimelineTest, WhatHappenedBetweenTwoMomentsIsSpreadOverTheTime) {
  Timeline timeline(moment(0, 1000));
  timeline.add(moment(4 * kMs + kMs / 2, 1009));
  timeline.add(moment(5 * kMs, 1019));
  const std::vector<Sample> samples = timeline.samples();
  ASSERT_EQ(samples.size(), 5U);
  EXPECT_EQ(samples[0].read_bytes, 2U);
  EXPECT_EQ(samples[3].read_bytes, 2U);
  EXPECT_EQ(samples[4].read_bytes, 1U + 10U);
  EXPECT_EQ(samples[4].at_ns, 5 * kMs);
  EXPECT_EQ(read_bytes(samples), 19U) << "nothing of it is lost by rounding";
}

TEST(TimelineTest, WhatIsHeldIsTheMostOfAnInterval) {
  Timeline timeline(moment(0, 0));
  timeline.add({kMs / 4, 0, 0, 0, 100, 70, 5});
  timeline.add({kMs / 2, 0, 0, 0, 100, 30, 9});
  timeline.add({3 * kMs, 0, 0, 0, 200, 40, 0});
  const std::vector<Sample> samples = timeline.samples();
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[0].live_bytes, 70U);
  EXPECT_EQ(samples[0].pageable_bytes, 9U);
  EXPECT_EQ(samples[0].pinned_bytes, 200U) << "the third moment's stretch begins here";
  EXPECT_EQ(samples[2].live_bytes, 40U);
  EXPECT_EQ(samples[2].pageable_bytes, 0U);
}

TEST(TimelineTest, StallsAndWritesAreSpreadAsReadsAre) {
  Timeline timeline({0, 5, 6, 7, 0, 0, 0});
  timeline.add({2 * kMs, 5, 26, 7 + kMs, 0, 0, 0});
  const std::vector<Sample> samples = timeline.samples();
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].write_bytes, 10U);
  EXPECT_EQ(samples[1].write_bytes, 10U);
  EXPECT_EQ(samples[0].stall_ns, kMs / 2);
  EXPECT_EQ(samples[0].read_bytes, 0U);
}

TEST(TimelineTest, MomentsAtOneTimeCount) {
  Timeline timeline(moment(0, 0));
  timeline.add(moment(0, 3));
  EXPECT_TRUE(timeline.samples().empty()) << "no time has passed";
  timeline.add(moment(kMs, 7));
  timeline.add(moment(kMs, 8));
  const std::vector<Sample> samples = timeline.samples();
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].read_bytes, 8U);
}

TEST(TimelineTest, ALongRunDoublesItsIntervals) {
  Timeline timeline(moment(0, 0));
  constexpr std::uint64_t kHourMs = 3'600'000;
  const std::uint64_t before = allocations_of_this_thread();
  for (std::uint64_t at = 1; at <= kHourMs; at += 7) {
    timeline.add({at * kMs, at * 11, at, at, at, at, 0});
  }
  EXPECT_EQ(allocations_of_this_thread(), before);
  const std::vector<Sample> samples = timeline.samples();
  EXPECT_LE(samples.size(), Timeline::kIntervals);
  EXPECT_GT(samples.size(), Timeline::kIntervals / 2);
  const std::uint64_t last = 1 + (kHourMs - 1) / 7 * 7;
  EXPECT_EQ(read_bytes(samples), last * 11);
  EXPECT_EQ(samples.back().at_ns, last * kMs);
  EXPECT_EQ(samples.back().live_bytes, last);
}

TEST(TimelineTest, MomentsCloserThanAnIntervalAreNotWanted) {
  Timeline timeline(moment(0, 0));
  EXPECT_FALSE(timeline.wants(kMs - 1));
  EXPECT_TRUE(timeline.wants(kMs));
  timeline.add(moment(5 * kMs, 0));
  EXPECT_FALSE(timeline.wants(5 * kMs + kMs / 2));
  timeline.add(moment(Timeline::kIntervals * kMs * 2, 0));
  EXPECT_FALSE(timeline.wants(Timeline::kIntervals * kMs * 2 + kMs)) << "intervals are longer";
}

TEST(TimelineTest, ThreadsTogetherHaveTheLongerIntervals) {
  const std::vector<Sample> fine = {{10 * kMs, 60}, {20 * kMs, 40}};
  const std::vector<Sample> coarse = {{20 * kMs, 70}, {40 * kMs, 30}};
  for (const std::vector<Sample>& both : {merged(fine, coarse), merged(coarse, fine)}) {
    ASSERT_EQ(both.size(), 2U);
    EXPECT_EQ(both[0].read_bytes, 170U);
    EXPECT_EQ(both[1].read_bytes, 30U);
    EXPECT_EQ(both[1].at_ns, 40 * kMs);
  }
}

TEST(JobResultTest, ThreadsTogether) {
  JobResult first;
  first.read = {.io_bytes = 100, .total_ios = 10, .runtime_ns = 5 * kMs, .clat = {}};
  first.user_seconds = 1;
  first.elapsed_ns = 5 * kMs;
  JobResult second = first;
  second.read.runtime_ns = 4 * kMs;
  second.error = 5;
  second.error_message = "no";
  first.merge(second);
  EXPECT_EQ(first.threads, 2U);
  EXPECT_EQ(first.read.io_bytes, 200U);
  EXPECT_EQ(first.read.runtime_ns, 5 * kMs);
  EXPECT_DOUBLE_EQ(first.read.bytes_per_second(), 200 / 0.005);
  EXPECT_EQ(first.user_seconds, 2);
  EXPECT_EQ(first.error, 5);
}

}  // namespace
}  // namespace penstock::bench

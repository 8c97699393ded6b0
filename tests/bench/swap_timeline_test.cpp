#include "bench/measure/swap_timeline.h"

#include <gtest/gtest.h>

#include "tests/alloc/allocation_counter.h"
#include "tests/bench/milliseconds.h"

namespace penstock::bench {
namespace {

SwapMoment moment(std::uint64_t at_ns, std::uint64_t read_bytes) {
  SwapMoment moment;
  moment.at_ns = at_ns;
  moment.read_bytes = read_bytes;
  return moment;
}

std::uint64_t read_bytes(const std::vector<SwapSample>& samples) {
  std::uint64_t bytes = 0;
  for (const SwapSample& sample : samples) {
    bytes += sample.read_bytes;
  }
  return bytes;
}

TEST(SwapTimelineTest, WhatHappenedBetweenTwoMomentsIsSpreadOverTheTime) {
  SwapTimeline timeline(moment(0, 1000));
  timeline.add(moment(4 * kMs + kMs / 2, 1009));
  timeline.add(moment(5 * kMs, 1019));
  const std::vector<SwapSample> samples = timeline.samples();
  ASSERT_EQ(samples.size(), 5U);
  EXPECT_EQ(samples[0].read_bytes, 2U);
  EXPECT_EQ(samples[3].read_bytes, 2U);
  EXPECT_EQ(samples[4].read_bytes, 1U + 10U);
  EXPECT_EQ(samples[4].at_ns, 5 * kMs);
  EXPECT_EQ(read_bytes(samples), 19U) << "nothing of it is lost by rounding";
}

TEST(SwapTimelineTest, WhatIsHeldIsTheMostOfAnInterval) {
  SwapTimeline timeline(moment(0, 0));
  timeline.add({kMs / 4, 0, 0, 0, 100, 70, 5});
  timeline.add({kMs / 2, 0, 0, 0, 100, 30, 9});
  timeline.add({3 * kMs, 0, 0, 0, 200, 40, 0});
  const std::vector<SwapSample> samples = timeline.samples();
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[0].live_bytes, 70U);
  EXPECT_EQ(samples[0].pageable_bytes, 9U);
  EXPECT_EQ(samples[0].pinned_bytes, 200U) << "the third moment's stretch begins here";
  EXPECT_EQ(samples[2].live_bytes, 40U);
  EXPECT_EQ(samples[2].pageable_bytes, 0U);
}

TEST(SwapTimelineTest, StallsAndWritesAreSpreadAsReadsAre) {
  SwapTimeline timeline({0, 5, 6, 7, 0, 0, 0});
  timeline.add({2 * kMs, 5, 26, 7 + kMs, 0, 0, 0});
  const std::vector<SwapSample> samples = timeline.samples();
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].write_bytes, 10U);
  EXPECT_EQ(samples[1].write_bytes, 10U);
  EXPECT_EQ(samples[0].stall_ns, kMs / 2);
  EXPECT_EQ(samples[0].read_bytes, 0U);
}

TEST(SwapTimelineTest, MomentsAtOneTimeCount) {
  SwapTimeline timeline(moment(0, 0));
  timeline.add(moment(0, 3));
  EXPECT_TRUE(timeline.samples().empty()) << "no time has passed";
  timeline.add(moment(kMs, 7));
  timeline.add(moment(kMs, 8));
  const std::vector<SwapSample> samples = timeline.samples();
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].read_bytes, 8U);
}

TEST(SwapTimelineTest, ALongRunDoublesItsIntervals) {
  SwapTimeline timeline(moment(0, 0));
  constexpr std::uint64_t kHourMs = 3'600'000;
  const std::uint64_t before = allocations_of_this_thread();
  for (std::uint64_t at = 1; at <= kHourMs; at += 7) {
    timeline.add({at * kMs, at * 11, at, at, at, at, 0});
  }
  EXPECT_EQ(allocations_of_this_thread(), before);
  const std::vector<SwapSample> samples = timeline.samples();
  EXPECT_LE(samples.size(), SwapTimeline::kIntervals);
  EXPECT_GT(samples.size(), SwapTimeline::kIntervals / 2);
  const std::uint64_t last = 1 + (kHourMs - 1) / 7 * 7;
  EXPECT_EQ(read_bytes(samples), last * 11);
  EXPECT_EQ(samples.back().at_ns, last * kMs);
  EXPECT_EQ(samples.back().live_bytes, last);
}

TEST(SwapTimelineTest, MomentsCloserThanAnIntervalAreNotWanted) {
  SwapTimeline timeline(moment(0, 0));
  EXPECT_FALSE(timeline.wants(kMs - 1));
  EXPECT_TRUE(timeline.wants(kMs));
  timeline.add(moment(5 * kMs, 0));
  EXPECT_FALSE(timeline.wants(5 * kMs + kMs / 2));
  timeline.add(moment(SwapTimeline::kIntervals * kMs * 2, 0));
  EXPECT_FALSE(timeline.wants(SwapTimeline::kIntervals * kMs * 2 + kMs)) << "intervals are longer";
}

}  // namespace
}  // namespace penstock::bench

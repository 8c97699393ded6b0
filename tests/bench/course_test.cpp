#include "bench/measure/course.h"

#include <gtest/gtest.h>

#include "bench/job/job_value.h"
#include "bench/measure/job_result.h"
#include "tests/alloc/allocation_counter.h"

namespace penstock::bench {
namespace {

TEST(CourseTest, SamplesAreAMillisecondApart) {
  Course course;
  EXPECT_TRUE(course.wants(0));
  course.add({5 * kMillisecondNs, 7});
  EXPECT_FALSE(course.wants(5 * kMillisecondNs + kMillisecondNs / 2));
  EXPECT_TRUE(course.wants(6 * kMillisecondNs));
  EXPECT_EQ(course.samples(), (std::vector<Sample>{{5 * kMillisecondNs, 7}}));
}

TEST(CourseTest, ALongRunHasThemFurtherApart) {
  Course course;
  const std::uint64_t before = allocations_of_this_thread();
  constexpr std::uint64_t kHourMs = 3'600'000;
  for (std::uint64_t at = 1; at <= kHourMs; ++at) {
    if (course.wants(at * kMillisecondNs)) {
      course.add({at * kMillisecondNs, at});
    }
  }
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_LE(course.samples().size(), Course::kSamples);
  EXPECT_GE(course.samples().size(), Course::kSamples / 4);
  for (const Sample& sample : course.samples()) {
    EXPECT_EQ(sample.at_ns, sample.read_bytes * kMillisecondNs) << "none is made up";
  }
  EXPECT_GT(course.samples().back().at_ns, (kHourMs - 10'000) * kMillisecondNs);
}

TEST(JobResultTest, ThreadsTogether) {
  JobResult first;
  first.read = {.io_bytes = 100, .total_ios = 10, .runtime_ns = 5 * kMillisecondNs, .clat = {}};
  first.courses = {{{1, 2}}};
  first.cpu.user_seconds = 1;
  first.elapsed_ns = 5 * kMillisecondNs;
  JobResult second = first;
  second.read.runtime_ns = 4 * kMillisecondNs;
  second.error = 5;
  second.error_message = "no";
  first.merge(second);
  EXPECT_EQ(first.threads, 2U);
  EXPECT_EQ(first.read.io_bytes, 200U);
  EXPECT_EQ(first.read.runtime_ns, 5 * kMillisecondNs);
  EXPECT_DOUBLE_EQ(first.read.bytes_per_second(), 200 / 0.005);
  EXPECT_EQ(first.courses.size(), 2U);
  EXPECT_EQ(first.cpu.user_seconds, 2);
  EXPECT_EQ(first.error, 5);
}

}  // namespace
}  // namespace penstock::bench

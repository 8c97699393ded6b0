#include "bench/pair/report_comparison.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace penstock::bench {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A run of one job that reads: bandwidth in MB/s; 1 GB in 1 s of which `cpu` percent are CPU.
std::string reading(double megabytes, double cpu = 5, double p99_ns = 1000) {
  return fmt::format(
      R"({{"jobs": [{{"jobname": "r", "error": 0, "usr_cpu": {}, "sys_cpu": 0,
          "read": {{"io_bytes": 1e9, "bw_bytes": {}, "runtime": 1000,
                    "clat_ns": {{"percentile": {{"99.000000": {}}}}}}}, "write": {{}}}}]}})",
      cpu, megabytes * 1e6, p99_ns);
}

RecordedRuns runs(const std::string& text) {
  return read_recorded_runs(text, "a.json").value();
}

const ComparisonRow& row(const ReportComparison& comparison, const std::string& figure) {
  const auto found = std::ranges::find(comparison.rows, figure, &ComparisonRow::figure);
  if (found == comparison.rows.end()) {
    ADD_FAILURE() << "no row " << figure;
    static const ComparisonRow none;
    return none;
  }
  return *found;
}

std::vector<double> values(const RecordedRuns& recorded, const std::string& name) {
  const auto found = std::ranges::find(recorded.figures, name, &RecordedFigure::name);
  return found == recorded.figures.end() ? std::vector<double>{} : found->values;
}

TEST(RecordedRunsTest, OneAfterAnotherOrInAnArray) {
  const std::string in_a_row = reading(100) + "\n" + reading(200);
  const std::string in_array = "[" + reading(100) + "," + reading(200) + "]\n";
  for (const std::string& text : {in_a_row, in_array}) {
    EXPECT_THAT(values(runs(text), "read bandwidth"), ElementsAre(1e8, 2e8));
  }
  EXPECT_THAT(values(runs(in_a_row), "CPU per GB"), ElementsAre(50, 50));
  EXPECT_THAT(values(runs(in_a_row), "read p99"), ElementsAre(1000, 1000));
  EXPECT_THAT(values(runs(in_a_row), "write bandwidth"), IsEmpty());
}

// 2 x 1e9 bytes; 100 ms and 50 ms of CPU; stalls of 100 and 300 ms in 2 x 1 s.
TEST(RecordedRunsTest, ThreadsOfAJobAreOne) {
  const auto thread = [](double cpu, double p99_ns, double stall_ns) {
    return fmt::format(
        R"({{"jobname": "r", "usr_cpu": {}, "read": {{"io_bytes": 1e9, "bw_bytes": 5e8,
            "runtime": 1000, "clat_ns": {{"percentile": {{"99.000000": {}}}}}}},
            "swap": {{"stall_ns": {}}}}})",
        cpu, p99_ns, stall_ns);
  };
  const RecordedRuns found =
      runs(fmt::format(R"({{"jobs": [{}, {}]}})", thread(10, 700, 1e8), thread(5, 900, 3e8)));
  EXPECT_THAT(found.jobs, ElementsAre("r"));
  EXPECT_THAT(values(found, "read bandwidth"), ElementsAre(1e9));
  EXPECT_THAT(values(found, "CPU per GB"), ElementsAre(75));
  EXPECT_THAT(values(found, "read p99"), ElementsAre(900));
  EXPECT_THAT(values(found, "stalls"), ElementsAre(0.2));
}

TEST(RecordedRunsTest, JobsOfOneNameInSeveralGroupsAreSeveral) {
  const RecordedRuns found = runs(
      R"({"jobs": [{"jobname": "r", "groupid": 0, "read": {"io_bytes": 1, "bw_bytes": 100}},
                   {"jobname": "r", "groupid": 2, "read": {"io_bytes": 1, "bw_bytes": 300}}]})");
  EXPECT_THAT(found.jobs, ElementsAre("r", "r #2"));
  EXPECT_THAT(values(found, "read bandwidth"), ElementsAre(100));
}

TEST(RecordedRunsTest, WhatIsRefused) {
  const auto cut = read_recorded_runs(R"({"jobs": [{"jobname": "r", "interrupted": true}]})", "a");
  ASSERT_TRUE(cut.has_error());
  EXPECT_THAT(cut.error().message, HasSubstr("r was interrupted in a"));
  const auto deep = read_recorded_runs(std::string(200'000, '['), "a");
  ASSERT_TRUE(deep.has_error());
  EXPECT_THAT(deep.error().message, HasSubstr("64 levels"));
}

TEST(ReportComparisonTest, OneRunEachIsJudgedByItsChange) {
  const ReportComparison comparison =
      compare_reports(runs(reading(100, 5, 1000)), runs(reading(94, 5.2, 500)), 0.05);
  EXPECT_EQ(row(comparison, "read bandwidth").verdict, "worse");
  EXPECT_NEAR(row(comparison, "read bandwidth").change, -0.06, 1e-9);
  EXPECT_FALSE(row(comparison, "read bandwidth").interval.has_value());
  EXPECT_EQ(row(comparison, "CPU per GB").verdict, "same");
  EXPECT_EQ(row(comparison, "read p99").verdict, "better");
  EXPECT_TRUE(comparison.regressed());
  EXPECT_FALSE(compare_reports(runs(reading(100)), runs(reading(94)), 0.07).regressed());
}

TEST(ReportComparisonTest, ManyRunsThatAgreeAreOne) {
  const RecordedRuns before = runs(reading(100) + reading(101) + reading(99) + reading(100));
  const RecordedRuns after = runs(reading(80) + reading(81) + reading(79) + reading(80));
  const ReportComparison comparison = compare_reports(before, after, 0.05);
  const ComparisonRow& bandwidth = row(comparison, "read bandwidth");
  EXPECT_EQ(bandwidth.verdict, "worse");
  ASSERT_TRUE(bandwidth.interval.has_value());
  EXPECT_GE(bandwidth.interval->low, 79.0 / 101 - 1 - 1e-9);
  EXPECT_LE(bandwidth.interval->high, 81.0 / 99 - 1 + 1e-9);
  EXPECT_EQ(row(compare_reports(after, before, 0.05), "read bandwidth").verdict, "better");
}

TEST(ReportComparisonTest, StallsAreSharesOfTheTime) {
  const auto stalling = [](double stall_ns) {
    return runs(fmt::format(R"({{"jobs": [{{"jobname": "s", "read": {{"io_bytes": 1e9,
        "bw_bytes": 1e9, "runtime": 1000}}, "swap": {{"stall_ns": {}}}}}]}})",
                            stall_ns));
  };
  const ReportComparison worse = compare_reports(stalling(0), stalling(6e7), 0.05);
  EXPECT_EQ(row(worse, "stalls").verdict, "worse");
  EXPECT_DOUBLE_EQ(row(worse, "stalls").change, 0.06);
  // Twice as much, and not to be noticed.
  EXPECT_FALSE(compare_reports(stalling(1e6), stalling(2e6), 0.05).regressed());
}

TEST(ReportComparisonTest, AFigureThatIsMissingIsARegression) {
  const RecordedRuns writes =
      runs(R"({"jobs": [{"jobname": "r", "write": {"io_bytes": 1, "bw_bytes": 1}}]})");
  EXPECT_THAT(compare_reports(runs(reading(100)), writes, 0.05).missing,
              Contains("the second report has no read bandwidth of the job r"));
}

}  // namespace
}  // namespace penstock::bench

#include "bench/report/run_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/milliseconds.h"

namespace penstock::bench {
namespace {

using nlohmann::json;
using testing::HasSubstr;

JobResult raw_result(const std::string& name, std::size_t job, std::uint32_t group) {
  JobResult result;
  result.name = name;
  result.job = job;
  result.group = group;
  result.elapsed_ns = 20 * kMs;
  result.read.io_bytes = 3'000'000;
  result.read.total_ios = 3;
  result.read.runtime_ns = 20 * kMs;
  result.read.clat.add(5'000);
  result.course = {{10 * kMs, 1'000'000}, {20 * kMs, 2'000'000}};
  return result;
}

JobResult swap_result(const std::string& name, std::size_t job, std::uint32_t group) {
  JobResult result = raw_result(name, job, group);
  SwapResult swap;
  swap.stall_ns = 5 * kMs;
  result.course = {{10 * kMs, 1'000'000, 0, 5 * kMs, 4 << 20, 1 << 20, 0},
                   {20 * kMs, 2'000'000, 0, 0, 4 << 20, 3 << 20, 0}};
  result.swap = swap;
  return result;
}

Report report_of(std::vector<JobResult> results) {
  Report report;
  report.version = "1.2.3";
  report.command = "penstock bench '--name=<script>'";
  for (const JobResult& result : results) {
    Job job;
    job.name = result.name;
    report.jobs.push_back(job);
  }
  report.results = std::move(results);
  return report;
}

json picture_of(const Report& report) {
  return json::parse(run_plot(report));
}

TEST(RunPlotTest, RawJobsHaveBandwidthAlone) {
  const json groups = picture_of(report_of({raw_result("a", 0, 0)}))["groups"];
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0]["title"], "a");
  EXPECT_EQ(groups[0]["x"]["label"], "time, s");
  ASSERT_EQ(groups[0]["panels"].size(), 1U);
  const json& curves = groups[0]["panels"][0]["curves"];
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0]["label"], "read");
  EXPECT_EQ(curves[0]["x"], (json{0.005, 0.015}));
  EXPECT_EQ(curves[0]["y"], (json{100.0, 200.0}));
}

TEST(RunPlotTest, JobsThatSwapHaveMemoryAndStalls) {
  const json groups =
      picture_of(report_of({swap_result("a", 0, 0), raw_result("b", 1, 0)}))["groups"];
  ASSERT_EQ(groups.size(), 1U);
  const json& panels = groups[0]["panels"];
  ASSERT_EQ(panels.size(), 3U);
  EXPECT_EQ(panels[0]["curves"][1]["label"], "read, b");
  EXPECT_NE(panels[0]["curves"][0]["colour"], panels[0]["curves"][1]["colour"]);
  ASSERT_EQ(panels[1]["curves"].size(), 2U) << "of a alone: in use, and pinned";
  EXPECT_EQ(panels[1]["curves"][0]["y"], (json{1.0, 3.0}));
  EXPECT_EQ(panels[1]["curves"][1]["y"], (json{4.0, 4.0}));
  ASSERT_EQ(panels[2]["curves"].size(), 1U);
  EXPECT_EQ(panels[2]["curves"][0]["y"], (json{50.0, 0.0}));
}

TEST(RunPlotTest, SimulatedTimeIsCalledSo) {
  Report report = report_of({swap_result("a", 0, 0), raw_result("b", 1, 0), raw_result("c", 2, 1)});
  report.jobs[0].simulated = SimulatedDrive{1, 1, 1, false};
  json groups = picture_of(report)["groups"];
  EXPECT_EQ(groups[0]["x"]["label"], "time, s (simulated: a)");
  EXPECT_EQ(groups[1]["x"]["label"], "time, s");
  report.jobs[1].simulated = SimulatedDrive{1, 1, 1, false};
  report.jobs[2].simulated = SimulatedDrive{1, 1, 1, true};
  groups = picture_of(report)["groups"];
  EXPECT_EQ(groups[0]["x"]["label"], "simulated time, s");
  EXPECT_EQ(groups[1]["x"]["label"], "time, s") << "a drive with the machine's clock";
}

TEST(RunPlotTest, LongRunsAreThinnedAndKeepTheirBytes) {
  Report report = report_of({raw_result("a", 0, 0)});
  std::vector<Sample>& samples = report.results[0].course;
  samples.clear();
  for (std::uint64_t index = 1; index <= 2048; ++index) {
    samples.push_back({index * 10 * kMs, index % 2 == 0 ? 2'000'000U : 0U});
  }
  const json curve = picture_of(report)["groups"][0]["panels"][0]["curves"][0];
  EXPECT_LE(curve["y"].size(), 512U);
  EXPECT_GT(curve["y"].size(), 256U);
  for (const json& rate : curve["y"]) {
    EXPECT_NEAR(rate.get<double>(), 100.0, 25.0);
  }
}

TEST(RunPlotTest, NothingMoved) {
  JobResult nothing;
  nothing.name = "a";
  const json groups = picture_of(report_of({nothing}))["groups"];
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_TRUE(groups[0]["panels"].empty());
  EXPECT_THAT(groups[0]["title"].get<std::string>(), HasSubstr("nothing moved"));
}

}  // namespace
}  // namespace penstock::bench

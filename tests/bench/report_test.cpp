#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "alloc/bytes.h"
#include "bench/report/report.h"

namespace penstock::bench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Report make_report() {
  Report report;
  report.version = "1.2.3";
  report.command = "penstock bench x.job";
  report.time = std::chrono::system_clock::time_point(std::chrono::milliseconds(1795318242732));
  Job job;
  job.name = "one";
  job.direction = {true, true};
  job.block_bytes = 128 * kKiB;
  report.jobs = {job, job};
  report.jobs[1].name = "two";
  report.jobs[0].given = {{"name", "one"}, {"bs", "128k"}, {"size", "1g"}};
  report.jobs[1].given = {{"name", "two"}, {"bs", "128k"}, {"stonewall", "1"}};
  JobResult result;
  result.name = "one";
  result.elapsed_ns = 2'000'000'000;
  result.cpu = {0.5, 0.25};
  result.read.io_bytes = 3 * kMiB;
  result.read.total_ios = 24;
  result.read.short_ios = 1;
  result.read.runtime_ns = 2'000'000'000;
  for (std::uint64_t index = 1; index <= 24; ++index) {
    result.read.clat.add(index * 1000);
  }
  report.results = {result, result};
  report.results[1].name = "two";
  report.results[1].job = 1;
  report.results[1].group = 1;
  return report;
}

TEST(JsonReportTest, FiosKeysAndOurs) {
  const json document = json::parse(json_report(make_report()));
  EXPECT_EQ(document["schema"], "penstock.bench/1");
  EXPECT_EQ(document["penstock version"], "1.2.3");
  EXPECT_EQ(document["timestamp"], 1795318242);
  EXPECT_EQ(document["command"], "penstock bench x.job");
  EXPECT_EQ(document["global options"], (json{{"bs", "128k"}}));
  const json& one = document["jobs"][0];
  EXPECT_EQ(one["jobname"], "one");
  EXPECT_EQ(one["job options"], (json{{"name", "one"}, {"size", "1g"}}));
  EXPECT_EQ(document["jobs"][1]["groupid"], 1);
  EXPECT_EQ(one["error"], 0);
  EXPECT_EQ(one["read"]["io_bytes"], 3 * kMiB);
  EXPECT_EQ(one["read"]["bw_bytes"], 3 * kMiB / 2);
  EXPECT_EQ(one["read"]["bw"], 1536);
  EXPECT_EQ(one["read"]["iops"], 12.0);
  EXPECT_EQ(one["read"]["runtime"], 2000);
  EXPECT_EQ(one["read"]["total_ios"], 24);
  EXPECT_EQ(one["read"]["short_ios"], 1);
  const json& clat = one["read"]["clat_ns"];
  EXPECT_EQ(clat["min"], 1000);
  EXPECT_EQ(clat["max"], 24000);
  EXPECT_EQ(clat["mean"], 12500.0);
  EXPECT_EQ(clat["N"], 24);
  EXPECT_EQ(clat["percentile"].size(), 17U);
  EXPECT_EQ(clat["percentile"]["50.000000"], 11968) << "the middle of the bucket of 12000";
  EXPECT_EQ(one["write"]["io_bytes"], 0);
  EXPECT_EQ(one["write"]["clat_ns"]["N"], 0);
  EXPECT_EQ(one["usr_cpu"], 25.0);
  EXPECT_EQ(one["sys_cpu"], 12.5);
  EXPECT_EQ(one["job_runtime"], 2000);
  EXPECT_NEAR(one["cpu_ms_per_gb"].get<double>(), 0.75e12 / (3 * kMiB), 1e-6);
  EXPECT_FALSE(one.contains("swap"));
  EXPECT_FALSE(one.contains("pair"));
}

TEST(JsonReportTest, SwapAndPair) {
  Report report = make_report();
  SwapResult& swap = report.results[0].swap.emplace();
  swap.stall_ns = 5;
  report.results[1].swap = SwapResult{};
  PairResult& pair = report.results[1].pair.emplace();
  pair.peer = "fio";
  pair.bandwidth.median = 0.99;
  pair.cpu.median = 0.5;
  pair.cpu.low = 0.4;
  pair.cpu.high = 0.6;
  pair.peer_settings = "bs=1m";
  const json jobs = json::parse(json_report(report))["jobs"];
  EXPECT_EQ(jobs[0]["swap"]["stall_ns"], 5);
  for (const char* const key : {"stall_ns", "overlap", "hits", "late", "misses", "pinned_bytes",
                                "peak_live_bytes", "pageable_bytes", "pool_waits", "padding_bytes",
                                "read_bytes", "write_bytes", "cpu_ms_per_gb"}) {
    EXPECT_TRUE(jobs[0]["swap"].contains(key)) << key;
  }
  EXPECT_EQ(jobs[1]["pair"]["peer"], "fio");
  EXPECT_EQ(jobs[1]["pair"]["ratio_median"], 0.99);
  EXPECT_EQ(jobs[1]["pair"]["cpu_ratio_median"], 0.5);
  EXPECT_EQ(jobs[1]["pair"]["cpu_ratio_high"], 0.6);
  EXPECT_THAT(text_report(report), HasSubstr("CPU a byte 0.500 of fio's (0.400 to 0.600)"));
  EXPECT_EQ(jobs[1]["pair"]["peer_settings"], "bs=1m");
  EXPECT_EQ(jobs[1]["pair"]["warning"], "");
  EXPECT_THAT(text_report(report), Not(HasSubstr("warning")));
  pair.short_seconds = 0.006;
  EXPECT_EQ(json::parse(json_report(report))["jobs"][1]["pair"]["warning"], pair.warning());
  EXPECT_THAT(text_report(report), HasSubstr("  warning: fio was done in 6 ms,"));
}

TEST(JsonReportTest, TheRunTimeIsThatOfAllThreads) {
  Report report = make_report();
  report.results[0].threads = 3;
  const json one = json::parse(json_report(report))["jobs"][0];
  EXPECT_EQ(one["job_runtime"], 6000);
  EXPECT_DOUBLE_EQ(one["usr_cpu"].get<double>(), 25.0 / 3);
}

TEST(JsonReportTest, TheCourseIsForThePlotAlone) {
  Report report = make_report();
  report.results[0].courses = {{{10, 20, 30, 40, 50, 60}, {11, 21, 31, 41, 51, 61}}};
  EXPECT_FALSE(json::parse(json_report(report))["jobs"][0].contains("courses"));
  const json jobs = json::parse(json_report(report, true))["jobs"];
  EXPECT_EQ(jobs[0]["courses"], json::parse("[[[10,20,30,40,50,60],[11,21,31,41,51,61]]]"));
  EXPECT_TRUE(jobs[1]["courses"].empty());
}

TEST(TextReportTest, SaysWhatAPersonLooksFor) {
  const std::string text = text_report(make_report());
  EXPECT_THAT(text, HasSubstr("one: read and write (50 % reads), 128.0 KiB, psync, buffered"));
  EXPECT_THAT(text, HasSubstr("1.5 MiB/s (1.6 MB/s), 12 requests/s: 3.0 MiB in 2.000 s"));
  EXPECT_THAT(text, HasSubstr("user 25.00 %, system 12.50 %"));
  Report failed = make_report();
  failed.results[0].error = EIO;
  failed.results[0].error_message = "cannot read 1 bytes";
  failed.results[1].interrupted = true;
  EXPECT_THAT(text_report(failed), HasSubstr("error 5: cannot read 1 bytes"));
  EXPECT_THAT(text_report(failed), HasSubstr("interrupted"));
}

}  // namespace
}  // namespace penstock::bench

#include "bench/pair/fio_peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const FioSettings kFixed = fio_candidates(8).front();

Job reading_job() {
  Job job;
  job.name = "read-1m";
  job.directory = "/drive";
  job.size = kGiB;
  job.direct = true;
  job.iodepth = 8;
  job.block_bytes = kMiB;
  return job;
}

TEST(FioCommandTest, TheSameWork) {
  const Command command = fio_command(reading_job(), kFixed);
  EXPECT_EQ(command.arguments.front(), "fio");
  EXPECT_EQ(command.package, "fio");
  for (const char* const argument :
       {"--name=read-1m", "--rw=read", "--bs=1048576", "--directory=/drive", "--size=1073741824",
        "--direct=1", "--ioengine=io_uring", "--iodepth=8", "--fixedbufs=1", "--numjobs=1",
        "--allow_file_create=0"}) {
    EXPECT_THAT(command.arguments, Contains(argument));
  }
  EXPECT_THAT(command.arguments, Not(Contains(StartsWith("--io_size"))));
  EXPECT_THAT(command.arguments, Not(Contains(StartsWith("--runtime"))));
  EXPECT_THAT(command.environment, Contains("GLIBC_TUNABLES=glibc.malloc.hugetlb=1"));
}

TEST(FioCommandTest, WhatAJobMaySay) {
  Job job = reading_job();
  job.direction = {.reads = true, .writes = true};
  job.rwmixread = 70;
  job.filename = "b:c";
  job.numjobs = 3;
  job.io_size = 512 * kMiB;
  job.rate = 7000;
  job.given["cpus_allowed"] = "0-1";
  job.runtime_ns = 1'500'000'000;
  job.time_based = true;
  job.ramp_time_ns = 250'000'000;
  job.loops = 2;
  const Command command = fio_command(job, {fio_candidates(32).back().arguments});
  for (const char* const argument :
       {"--rw=rw", "--rwmixread=70", "--filename=b\\:c", "--numjobs=3", "--io_size=536870912",
        "--rate=7000,3000", "--cpus_allowed=0-1", "--runtime=1500000us", "--time_based=1",
        "--ramp_time=250000us", "--loops=2", "--ioengine=libaio", "--iodepth=32"}) {
    EXPECT_THAT(command.arguments, Contains(argument));
  }
  EXPECT_THAT(command.arguments, Not(Contains("--fixedbufs=1")));
  EXPECT_THAT(command.environment, IsEmpty());
}

// The larger part has the rate, the other one what the mix leaves it: 99 to 1, and 0 is no limit.
TEST(FioCommandTest, ARateOfAMixKeepsItsShares) {
  Job job = reading_job();
  job.rate = 50;
  EXPECT_THAT(fio_command(job, kFixed).arguments, Contains("--rate=50"));
  job.direction = {.reads = true, .writes = true};
  const std::vector<std::pair<std::uint32_t, const char*>> mixes{
      {50, "--rate=50,50"}, {20, "--rate=13,50"}, {99, "--rate=50,1"}, {100, "--rate=50,0"}};
  for (const auto& [reads, rate] : mixes) {
    job.rwmixread = reads;
    EXPECT_THAT(fio_command(job, kFixed).arguments, Contains(rate));
  }
}

TEST(FioCommandTest, WithoutAnEngineOneRequestIsUnderWay) {
  Job job = reading_job();
  EXPECT_THAT(make_fio_peer(job).settings[0], HasSubstr("--iodepth=1 "));
  job.engine = EngineKind::kUring;
  EXPECT_THAT(make_fio_peer(job).settings[0], HasSubstr("--iodepth=8 "));
}

TEST(FioSettingsTest, AsAUserWouldWriteThem) {
  EXPECT_EQ(kFixed.describe(),
            "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio --ioengine=io_uring --iodepth=8 "
            "--fixedbufs=1 --registerfiles=1");
  for (const FioSettings& settings : fio_candidates(32)) {
    EXPECT_THAT(settings.arguments, Contains("--iodepth=32"));
  }
}

// 60 % and 20 % of 0.5 s, and 10 % and 10 % of 0.25 s.
TEST(FioReportTest, TwoJobsTogether) {
  const auto run = parse_fio_report(R"(note: something
{"fio version": "fio-3.33", "jobs": [
 {"error": 0, "job_runtime": 500, "usr_cpu": 20.0, "sys_cpu": 60.0,
  "read": {"io_bytes": 1000, "runtime": 480}, "write": {"io_bytes": 500, "runtime": 499}},
 {"error": 0, "job_runtime": 250, "usr_cpu": 10.0, "sys_cpu": 10.0,
  "read": {"io_bytes": 10, "runtime": 250}, "write": {"io_bytes": 0, "runtime": 0}}]})");
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_EQ(run->read_bytes, 1010U);
  EXPECT_EQ(run->write_bytes, 500U);
  EXPECT_DOUBLE_EQ(run->seconds, 0.499);
  EXPECT_DOUBLE_EQ(run->tick_seconds, 0.001);
  EXPECT_DOUBLE_EQ(run->cpu_seconds, 0.45);
}

TEST(FioReportTest, AnErrno) {
  const auto run = parse_fio_report(
      R"({"jobs": [{"error": 28, "read": {"io_bytes": 0}, "write": {"io_bytes": 4096}}]})");
  ASSERT_TRUE(run.has_error());
  EXPECT_EQ(run.error().system_errno(), ENOSPC);
}

TEST(FioReportTest, NoneOrNothingMoved) {
  for (const char* const text :
       {"", "fio: killed", "{", "[]", R"({"jobs": []})", R"({"jobs": 7})", R"({"jobs": [7]})",
        R"({"jobs": [{"read": {}}]})", R"({"jobs": [{"read": 1, "write": "x"}]})",
        R"({"jobs": [{"error": "x", "read": {"io_bytes": "x"}, "write": {}}]})"}) {
    const auto run = parse_fio_report(text);
    ASSERT_TRUE(run.has_error()) << text;
    EXPECT_THAT(run.error().message, StartsWith("fio")) << text;
  }
}

class FioTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto version = ChildProcess::start({{"fio", "--version"}, {}, "fio"});
    if (version.has_error()) {
      GTEST_SKIP() << version.error().message;
    }
    std::ofstream(directory_ / "data") << std::string(4 * kMiB, 'x');
  }
  Job job() const {
    Job job = reading_job();
    job.directory = directory_.path();
    job.filename = "data";
    job.size = 4 * kMiB;
    job.direct = false;
    return job;
  }

  TempDirectory directory_;
  // Everywhere: containers may forbid io_uring.
  const FioSettings settings_{{"--ioengine=psync"}, kFixed.environment};
};

TEST_F(FioTest, ReadsAndWrites) {
  Job mixed = job();
  mixed.direction = {.reads = true, .writes = true};
  mixed.block_bytes = 16 * kKiB;
  mixed.io_size = 8 * kMiB;
  const auto run = run_fio(mixed, settings_);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_EQ(run->bytes(), 8 * kMiB);
  EXPECT_GT(run->read_bytes, 0U);
  EXPECT_GT(run->write_bytes, 0U);
  EXPECT_EQ(std::filesystem::file_size(directory_ / "data"), 4 * kMiB);
}

TEST_F(FioTest, AMixWithARateKeepsItsShares) {
  Job mixed = job();
  mixed.direction = {.reads = true, .writes = true};
  mixed.rwmixread = 80;
  mixed.block_bytes = 16 * kKiB;
  mixed.rate = 16 * kMiB;
  const auto run = run_fio(mixed, settings_);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const double share = static_cast<double>(run->read_bytes) / static_cast<double>(run->bytes());
  EXPECT_NEAR(share, 0.8, 0.05);
}

TEST_F(FioTest, MakesNoFiles) {
  Job missing = job();
  missing.filename = "nothing";
  const auto run = run_fio(missing, settings_);
  ASSERT_TRUE(run.has_error());
  EXPECT_THAT(run.error().message, AllOf(StartsWith("fio"), HasSubstr("file creation disallowed")));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "nothing"));
}

TEST_F(FioTest, SaysWhyItFailed) {
  const auto run = run_fio(job(), {{"--ioengine=no-such-engine"}});
  ASSERT_TRUE(run.has_error());
  EXPECT_THAT(run.error().message, AnyOf(HasSubstr("no-such-engine"), HasSubstr("engine")));
}

}  // namespace
}  // namespace penstock::bench

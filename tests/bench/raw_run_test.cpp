#include "bench/workload/workload_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "bench/job/job_value.h"
#include "bench/workload/block_feed.h"
#include "bench/workload/raw_file.h"
#include "bench/workload/request_loop.h"
#include "io/null_engine.h"
#include "tests/alloc/allocation_counter.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

using testing::HasSubstr;

constexpr Direction kWrite{false, true};
constexpr Direction kMix{true, true};

Job make_job(const TempDirectory& directory, Direction direction = {}) {
  Job job;
  job.name = "x";
  job.directory = directory.path();
  job.direction = direction;
  job.size = 2 * kMiB;
  job.block_bytes = 64 * kKiB;
  return job;
}

Result<JobResult> run(const Job& job, RunControl& control) {
  const std::unique_ptr<WorkloadRun> run = make_raw_run(job, 0);
  JobResult result;
  PENSTOCK_TRY(run->prepare(control));
  PENSTOCK_TRY(run->run(control, result));
  return result;
}
Result<JobResult> run(const Job& job) {
  RunControl control;
  return run(job, control);
}
JobResult run_well(const Job& job) {
  Result<JobResult> result = run(job);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result.has_value() ? std::move(*result) : JobResult();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Request> all_of(BlockFeed& feed) {
  std::vector<Request> requests;
  while (const std::optional<Request> request = feed.next()) {
    requests.push_back(*request);
  }
  return requests;
}

TEST(BlockFeedTest, WholeBlocksInOrderAndAroundAgain) {
  Job job;
  job.block_bytes = 10;
  job.io_size = 35;
  BlockFeed feed(job, 29);
  const std::vector<Request> requests = all_of(feed);
  ASSERT_EQ(requests.size(), 4U) << "the last block is whole";
  EXPECT_EQ(requests[1], (Request{IoKind::kRead, 10, 10}));
  EXPECT_EQ(requests[2], (Request{IoKind::kRead, 0, 10})) << "the last 9 bytes hold no block";
  EXPECT_EQ(feed.total_bytes(), 40U);
}

// fio 3.33's counts: tests/bench/fio_agreement_test.cpp asks it where it is installed.
TEST(BlockFeedTest, LoopsAndMoreBytesThanTheFileHas) {
  Job job;
  job.block_bytes = 4;
  const auto blocks = [&job](std::uint64_t io_size, std::uint32_t loops) {
    job.io_size = io_size;
    job.loops = loops;
    return BlockFeed(job, 64).total_bytes() / 4;
  };
  EXPECT_EQ(blocks(33, 3), 25U) << "ends in the second loop";
  EXPECT_EQ(blocks(128, 2), 32U) << "the loops suffice";
  EXPECT_EQ(blocks(129, 2), 32U) << "less than a block is left";
  EXPECT_EQ(blocks(200, 2), 64U) << "whole loops";
  EXPECT_EQ(blocks(100, 1), 25U);
}

TEST(BlockFeedTest, AMixHasItsShareAndEachDirectionItsOwnWay) {
  Job job;
  job.direction = kMix;
  job.rwmixread = 75;
  job.block_bytes = 1;
  BlockFeed feed(job, 100);
  std::uint64_t reads = 0;
  for (const Request& request : all_of(feed)) {
    if (request.kind == IoKind::kRead) {
      EXPECT_EQ(request.offset, reads++);
    }
  }
  EXPECT_EQ(reads, 75U);
}

class RawRunOnEngine : public testing::TestWithParam<std::optional<EngineKind>> {
 protected:
  void SetUp() override {
    if (GetParam() && make_engine(*GetParam(), {.block_bytes = 4096, .depth = 1}).has_error()) {
      GTEST_SKIP() << "this machine refuses " << engine_kind_name(*GetParam());
    }
  }
  Job make(Direction direction) const {
    Job job = make_job(directory_, direction);
    job.engine = GetParam();
    job.iodepth = 4;
    return job;
  }

  TempDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(Engines, RawRunOnEngine,
                         testing::Values(std::nullopt, EngineKind::kUring, EngineKind::kAio,
                                         EngineKind::kThreads));

TEST_P(RawRunOnEngine, ReadsWhatItLaidOut) {
  const JobResult result = run_well(make({}));
  EXPECT_EQ(result.read.io_bytes, 2 * kMiB);
  EXPECT_EQ(result.read.total_ios, 32U);
  EXPECT_EQ(result.read.clat.count(), 32U);
  EXPECT_GT(result.read.runtime_ns, 0U);
  EXPECT_EQ(result.read.runtime_ns, result.elapsed_ns);
  EXPECT_EQ(result.write.total_ios, 0U);
  EXPECT_EQ(result.write.runtime_ns, 0U);
  EXPECT_EQ(result.courses.at(0).back(), (Sample{result.elapsed_ns, 2 * kMiB}));
  const std::string contents = read_file(directory_ / "x.0.0");
  EXPECT_EQ(contents.size(), 2 * kMiB);
  EXPECT_EQ(contents.find(std::string(64, '\0')), std::string::npos) << "a hole was read";
}

TEST_P(RawRunOnEngine, WritesAndMixes) {
  Job job = make(kWrite);
  job.loops = 3;
  EXPECT_EQ(run_well(job).write.io_bytes, 6 * kMiB);
  job = make(kMix);
  job.unlink = true;
  const JobResult mixed = run_well(job);
  EXPECT_EQ(mixed.read.io_bytes, kMiB);
  EXPECT_EQ(mixed.write.io_bytes, kMiB);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "x.0.0"));
}

TEST(RawRunTest, AFileThatWasStoppedHasNoZeros) {
  const TempDirectory directory;
  RunControl control;
  control.stop = true;
  ASSERT_TRUE(run(make_job(directory), control).has_value());
  EXPECT_EQ(std::filesystem::file_size(directory / "x.0.0"), 0U);
}

TEST(RawRunTest, OnlyFilesAreRemoved) {
  const TempDirectory directory;
  std::ofstream(directory / "file") << "x";
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  for (const char* const name : {"file", "fifo", "none"}) {
    EXPECT_TRUE(remove_file(directory / name).has_value());
  }
  EXPECT_FALSE(std::filesystem::exists(directory / "file"));
  EXPECT_TRUE(std::filesystem::exists(directory / "fifo"));
}

TEST(RawRunTest, AFileThatIsTooShortIsFilledBeforeItIsRead) {
  const TempDirectory directory;
  std::ofstream(directory / "x.0.0") << std::string(kMiB, 'a');
  run_well(make_job(directory));
  const std::string contents = read_file(directory / "x.0.0");
  EXPECT_EQ(contents.substr(0, kMiB), std::string(kMiB, 'a'));
  EXPECT_EQ(contents.find(std::string(64, '\0')), std::string::npos);
  EXPECT_EQ(contents.size(), 2 * kMiB);
}

TEST(RawRunTest, AHoleIsGivenSpaceAndTheContentBehindItStays) {
  const TempDirectory directory;
  const std::filesystem::path path = directory / "x.0.0";
  std::ofstream(path).seekp(2 * kMiB - 2) << "of the user's";
  std::filesystem::resize_file(path, 3 * kMiB);
  const std::string before = read_file(path);
  struct ::stat sparse{};
  ASSERT_EQ(::stat(path.c_str(), &sparse), 0);
  run_well(make_job(directory));
  EXPECT_EQ(read_file(path), before);
  struct ::stat full{};
  ASSERT_EQ(::stat(path.c_str(), &full), 0);
  EXPECT_GT(full.st_blocks, sparse.st_blocks) << "reads ask the drive";
  EXPECT_EQ(full.st_size, 3 * kMiB) << "never cut";
}

TEST(RawRunTest, AShareOfTheFileThatIsThere) {
  const TempDirectory directory;
  std::ofstream(directory / "x.0.0") << std::string(kMiB + 100, 'a');
  Job job = make_job(directory);
  job.size = 0;
  job.size_percent = 20;
  EXPECT_EQ(run_well(job).read.io_bytes, 3 * 64 * kKiB) << "whole blocks";
  job.size_percent = 1;
  EXPECT_THAT(run(job).error().message, HasSubstr("less than one block"));
  job.filename = "none";
  EXPECT_THAT(run(job).error().message, HasSubstr("none has 0 bytes of its own"));
}

TEST(RawRunTest, ARateIsKeptInEachDirection) {
  const TempDirectory directory;
  Job job = make_job(directory, kMix);
  job.engine = EngineKind::kThreads;
  job.iodepth = 4;
  job.rate = 5 * kMiB;  // 1 MiB of each: 200 ms less the last block's part
  const JobResult result = run_well(job);
  EXPECT_EQ(result.read.io_bytes + result.write.io_bytes, 2 * kMiB);
  EXPECT_GE(result.elapsed_ns, 180 * kMillisecondNs);
  RunControl control;
  control.stop = true;
  EXPECT_TRUE(run(job, control)->interrupted) << "also while it waits";
}

TEST(RawRunTest, TimeEndsIt) {
  const TempDirectory directory;
  Job job = make_job(directory);
  job.time_based = true;
  job.runtime_ns = 50 * kMillisecondNs;
  job.ramp_time_ns = 20 * kMillisecondNs;
  const JobResult result = run_well(job);
  EXPECT_GE(result.elapsed_ns, 50 * kMillisecondNs);
  EXPECT_LT(result.elapsed_ns, 5000 * kMillisecondNs);
  EXPECT_GT(result.read.io_bytes, 2 * kMiB);
}

// No block is lost between the two, where one waits for its rate.
TEST(RawRunTest, WhatMovesInTheRampIsPartOfTheJob) {
  const TempDirectory directory;
  Job job = make_job(directory);
  job.rate = 4 * kMiB;
  job.ramp_time_ns = 300 * kMillisecondNs;
  RunControl control;
  const Result<JobResult> result = run(job, control);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_GT(result->read.io_bytes, 0U);
  EXPECT_LT(result->read.io_bytes, 2 * kMiB);
  EXPECT_EQ(control.total_bytes, result->read.io_bytes) << "progress ends at 1";
}

TEST(RawRunTest, AJobThatEndsInItsRampIsMeasuredWhole) {
  const TempDirectory directory;
  Job job = make_job(directory);
  job.ramp_time_ns = 3600 * kSecondNs;
  EXPECT_EQ(run_well(job).read.io_bytes, 2 * kMiB);
}

TEST(RawRunTest, WhatCannotBeRunSaysWhy) {
  const TempDirectory directory;
  Job job = make_job(directory);
  job.directory = directory / "none";
  EXPECT_EQ(run(job).error().system_errno(), ENOENT);
  job = make_job(directory);
  job.filename = "/dev/null";
  job.size = 0;
  EXPECT_TRUE(run(job).has_error());
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  job.filename = "fifo";
  job.size = kMiB;
  EXPECT_THAT(run(job).error().message, HasSubstr("fifo is a FIFO or a socket"));
  job.filename = ".";
  EXPECT_EQ(run(job).error().system_errno(), EISDIR);
}

TEST(RawRunTest, TheNullEngineMovesNothingAndKeepsCount) {
  const TempDirectory directory;
  Job job = make_job(directory, kMix);
  job.engine = EngineKind::kNull;
  job.iodepth = 8;
  const JobResult result = run_well(job);
  EXPECT_EQ(result.read.io_bytes + result.write.io_bytes, 2 * kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(RequestLoopTest, AllocatesNothingWhileItRuns) {
  Result<std::unique_ptr<IoEngine>> engine =
      make_engine(EngineKind::kNull, {.block_bytes = 4096, .depth = 4});
  ASSERT_TRUE(engine.has_value());
  const Result<File> file =
      File::open("/dev/null", File::Access::kReadWrite, DirectMode::kBuffered);
  ASSERT_TRUE(file.has_value());
  const Result<Memory> memory = PageSource::make()->allocate(4 * 4096);
  ASSERT_TRUE(memory.has_value());
  RequestLoop loop(**engine, *file, memory->span(), 4);
  Job job;
  job.io_size = 64 * kMiB;
  RunControl control;
  BlockFeed warm(job, kMiB);
  ASSERT_TRUE(loop.run(warm, {}, control).has_value());
  BlockFeed feed(job, kMiB);
  const std::uint64_t before = allocations_of_this_thread();
  ASSERT_TRUE(loop.run(feed, {}, control).has_value());
  EXPECT_LE(allocations_of_this_thread() - before, 3U) << "tables of the figures, once a run";
  EXPECT_EQ(loop.result().reads.io_bytes, 64 * kMiB);
}

}  // namespace
}  // namespace penstock::bench

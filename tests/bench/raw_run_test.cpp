#include "bench/workload/raw_run.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "bench/workload/request_loop.h"
#include "io/null_engine.h"
#include "tests/alloc/allocation_counter.h"
#include "tests/bench/directions.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

using testing::HasSubstr;

constexpr Direction kRandomMix{true, true, true};

Job make_job(const TempDirectory& directory, Direction direction) {
  Job job;
  job.name = "x";
  job.directory = directory.path();
  job.direction = direction;
  job.size = 2 * kMiB;
  job.read_blocks = {{64 * kKiB, 100}};
  job.write_blocks = job.read_blocks;
  return job;
}

struct Outcome {
  Result<void> prepared;
  Result<void> done;
  JobResult result;
};

Outcome run(const Job& job) {
  RunControl control;
  const std::unique_ptr<WorkloadRun> run = make_raw_run(job, 0);
  Outcome outcome;
  outcome.prepared = run->prepare(control);
  if (outcome.prepared.has_value()) {
    outcome.done = run->run(control, outcome.result);
  }
  return outcome;
}

JobResult run_well(const Job& job) {
  Outcome outcome = run(job);
  EXPECT_TRUE(outcome.prepared.has_value()) << outcome.prepared.error().message;
  EXPECT_TRUE(outcome.done.has_value()) << outcome.done.error().message;
  return std::move(outcome.result);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void flip_byte(const std::string& path, std::uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int old = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(old ^ 0x10));
}

class RawRunOnEngine : public testing::TestWithParam<std::optional<EngineKind>> {
 protected:
  Job make(Direction direction) const {
    Job job = make_job(directory_, direction);
    job.engine = GetParam();
    job.iodepth = 4;
    return job;
  }
  bool can_run() const {
    return !GetParam() || make_engine(*GetParam(), {.block_bytes = 4096, .depth = 1}).has_value();
  }
  void SetUp() override {
    if (!can_run()) {
      GTEST_SKIP() << "this machine refuses " << engine_kind_name(*GetParam());
    }
  }

  TempDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(Engines, RawRunOnEngine,
                         testing::Values(std::nullopt, EngineKind::kUring, EngineKind::kAio,
                                         EngineKind::kThreads));

TEST_P(RawRunOnEngine, ReadsWhatItLaidOut) {
  const JobResult result = run_well(make(kRead));
  EXPECT_EQ(result.read.io_bytes, 2 * kMiB);
  EXPECT_EQ(result.read.total_ios, 32U);
  EXPECT_EQ(result.read.clat.count(), 32U);
  EXPECT_GT(result.read.runtime_ns, 0U);
  EXPECT_EQ(result.read.runtime_ns, result.elapsed_ns);
  EXPECT_EQ(result.write.total_ios, 0U);
  EXPECT_EQ(result.write.runtime_ns, 0U);
  EXPECT_FALSE(result.interrupted);
  const std::string contents = read_file(directory_ / "x.0.0");
  EXPECT_EQ(contents.size(), 2 * kMiB);
  EXPECT_EQ(contents.find(std::string(64, '\0')), std::string::npos) << "a hole was read";
}

TEST_P(RawRunOnEngine, VerifyReadsBackEveryByte) {
  Job job = make(kWrite);
  job.verify = true;
  job.loops = 3;
  const JobResult result = run_well(job);
  EXPECT_EQ(result.write.io_bytes, 6 * kMiB);
  EXPECT_EQ(result.read.io_bytes, 2 * kMiB) << "as fio: what verifies counts as read";
}

TEST_P(RawRunOnEngine, VerifyFindsAByteThatChanged) {
  Job job = make(kWrite);
  job.verify = true;
  run_well(job);
  job.direction = kRead;
  EXPECT_EQ(run_well(job).read.io_bytes, 2 * kMiB);
  flip_byte(directory_ / "x.0.0", 777'777);
  const Outcome outcome = run(job);
  ASSERT_TRUE(outcome.done.has_error());
  EXPECT_EQ(outcome.done.error().system_errno(), EILSEQ);
  EXPECT_THAT(outcome.done.error().message, HasSubstr("offset 777777 of " + directory_ / "x.0.0"));
}

TEST_P(RawRunOnEngine, AMixIsVerifiedAfterwards) {
  Job job = make(kRandomMix);
  job.verify = true;
  job.rwmixread = 30;
  job.write_blocks = {{4 * kKiB, 50}, {64 * kKiB, 50}};
  job.io_size = 8 * kMiB;
  const JobResult result = run_well(job);
  EXPECT_GE(result.read.io_bytes + result.write.io_bytes, 8 * kMiB);
  EXPECT_EQ(result.read.clat.count(), result.read.total_ios);
}

TEST_P(RawRunOnEngine, AFullFileIsLeftAlone) {
  Job job = make(kRead);
  run_well(job);
  flip_byte(directory_ / "x.0.0", 5);
  const std::string before = read_file(directory_ / "x.0.0");
  run_well(job);
  EXPECT_EQ(read_file(directory_ / "x.0.0"), before);
}

TEST_P(RawRunOnEngine, SyncsThinkTimeAndUnlink) {
  Job job = make(kWrite);
  job.fsync = 3;
  job.end_fsync = true;
  job.thinktime_us = 1;
  job.unlink = true;
  EXPECT_EQ(run_well(job).write.total_ios, 32U);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "x.0.0"));
}

TEST_P(RawRunOnEngine, TimeBasedGoesRoundUntilTheTimeIsOver) {
  Job job = make(kRead);
  job.time_based = true;
  job.runtime_ns = 50'000'000;
  job.ramp_time_ns = 10'000'000;
  const JobResult result = run_well(job);
  EXPECT_GE(result.read.runtime_ns, 50'000'000U);
  EXPECT_EQ(result.read.io_bytes, result.read.total_ios * 64 * kKiB);
  EXPECT_EQ(result.read.clat.count(), result.read.total_ios) << "the ramp is not counted";
}

TEST_P(RawRunOnEngine, AnErrorNamesPathOffsetAndErrno) {
  Job job = make(kRead);
  RunControl control;
  const std::unique_ptr<WorkloadRun> run = make_raw_run(job, 0);
  ASSERT_TRUE(run->prepare(control).has_value());
  ASSERT_EQ(::truncate((directory_ / "x.0.0").c_str(), 1'000'000), 0);
  JobResult result;
  const Result<void> done = run->run(control, result);
  ASSERT_TRUE(done.has_error());
  EXPECT_EQ(done.error().system_errno(), ENODATA);
  EXPECT_THAT(done.error().message, HasSubstr(directory_ / "x.0.0"));
  EXPECT_THAT(done.error().message, HasSubstr("at offset"));
  EXPECT_GE(result.read.total_ios, 1U) << "what was done until then";
  EXPECT_LT(result.read.total_ios, 32U);
}

TEST_P(RawRunOnEngine, StopEndsSoonWithWhatWasDone) {
  Job job = make(kRead);
  job.time_based = true;
  job.runtime_ns = 3600'000'000'000;
  RunControl control;
  const std::unique_ptr<WorkloadRun> run = make_raw_run(job, 0);
  ASSERT_TRUE(run->prepare(control).has_value());
  control.stop = true;
  JobResult result;
  ASSERT_TRUE(run->run(control, result).has_value());
  EXPECT_TRUE(result.interrupted);
}

TEST(RawRunTest, DirectIoWantsWholeSectors) {
  const TempDirectory directory;
  Job job = make_job(directory, kWrite);
  job.direct = true;
  job.write_blocks = {{1000, 100}};
  const Outcome outcome = run(job);
  ASSERT_TRUE(outcome.prepared.has_error());
  EXPECT_EQ(outcome.prepared.error().system_errno(), EINVAL);
}

TEST(RawRunTest, BlocksNeedNoAlignmentWithoutDirectIo) {
  const TempDirectory directory;
  Job job = make_job(directory, kWrite);
  job.write_blocks = {{1001, 100}};
  job.verify = true;
  const JobResult result = run_well(job);
  EXPECT_EQ(result.write.total_ios, 2 * kMiB / 1001);
  EXPECT_EQ(result.read.io_bytes, result.write.io_bytes);
}

TEST(RawRunTest, RoomIsReservedWhereWritesWillGo) {
  const TempDirectory directory;
  Job job = make_job(directory, kWrite);
  RunControl control;
  const std::unique_ptr<WorkloadRun> run = make_raw_run(job, 0);
  ASSERT_TRUE(run->prepare(control).has_value());
  EXPECT_EQ(std::filesystem::file_size(directory / "x.0.0"), 2 * kMiB);
  job.name = "y";
  job.fallocate = false;
  const std::unique_ptr<WorkloadRun> bare = make_raw_run(job, 0);
  ASSERT_TRUE(bare->prepare(control).has_value());
  EXPECT_EQ(std::filesystem::file_size(directory / "y.0.0"), 0U);
}

TEST(RawRunTest, AHoleIsFilledBeforeItIsRead) {
  const TempDirectory directory;
  const std::string path = directory / "x.0.0";
  std::ofstream(path) << std::string(4 * kKiB, 'a');
  ASSERT_EQ(::truncate(path.c_str(), 2 * kMiB), 0);
  run_well(make_job(directory, kRead));
  const std::string contents = read_file(path);
  EXPECT_EQ(contents.find(std::string(64, '\0')), std::string::npos);
}

TEST(RawRunTest, MissingDirectoryIsAnErrorThatNamesIt) {
  const TempDirectory directory;
  for (const Direction direction : {kRead, kWrite}) {
    Job job = make_job(directory, direction);
    job.directory = directory / "none";
    const Outcome outcome = run(job);
    ASSERT_TRUE(outcome.prepared.has_error());
    EXPECT_EQ(outcome.prepared.error().system_errno(), ENOENT);
    EXPECT_THAT(outcome.prepared.error().message, HasSubstr(directory / "none/x.0.0"));
  }
}

TEST(RawRunTest, WithoutASizeThereMustBeAFile) {
  const TempDirectory directory;
  Job job = make_job(directory, kRead);
  job.size = 0;
  const Outcome outcome = run(job);
  ASSERT_TRUE(outcome.prepared.has_error());
  EXPECT_THAT(outcome.prepared.error().message, HasSubstr("give `size`"));
  std::ofstream(directory / "x.0.0") << std::string(256 * kKiB, 'a');
  EXPECT_EQ(run_well(job).read.io_bytes, 256 * kKiB);
}

TEST(RawRunTest, TheNullEngineTouchesNoFile) {
  const TempDirectory directory;
  Job job = make_job(directory, kRandomMix);
  job.engine = EngineKind::kNull;
  job.iodepth = 8;
  const JobResult result = run_well(job);
  EXPECT_EQ(result.read.total_ios + result.write.total_ios, 32U);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(RawRunTest, JobsThatMakeNoSense) {
  const TempDirectory directory;
  Job job = make_job(directory, kRead);
  job.time_based = true;
  EXPECT_THAT(run(job).prepared.error().message, HasSubstr("time_based needs `runtime`"));
  job = make_job(directory, kWrite);
  job.verify = true;
  job.engine = EngineKind::kNull;
  EXPECT_THAT(run(job).prepared.error().message, HasSubstr("`verify`"));
  job = make_job(directory, kRead);
  job.simulated.emplace();
  EXPECT_THAT(run(job).prepared.error().message, HasSubstr("ioengine=sim"));
}

// The same number of allocations however many requests there are.
TEST(RequestLoopTest, AllocatesNothingARequest) {
  const TempDirectory directory;
  Job job = make_job(directory, kRandomMix);
  job.engine = EngineKind::kNull;
  const std::atomic<bool> stop{false};
  const FileSet files = FileSet::open(job, 0, stop).value();
  const auto engine = make_null_engine({.block_bytes = 64 * kKiB, .depth = 8}).value();
  const Memory arena = PageSource::make()->allocate(8 * 64 * kKiB).value();
  RequestLoop loop(*engine, files, arena.span(), 8, nullptr);
  RunControl control;
  const auto allocations_of = [&](std::uint64_t requests) {
    job.io_size = requests * 64 * kKiB;
    const auto source = RequestSource::make(job, 0, files.regions()).value();
    const std::uint64_t before = allocations_of_this_thread();
    EXPECT_TRUE(loop.run(*source, {}, control).has_value());
    EXPECT_EQ(loop.reads().ios + loop.writes().ios, requests);
    return allocations_of_this_thread() - before;
  };
  allocations_of(10);
  EXPECT_EQ(allocations_of(20), allocations_of(5000));
}

}  // namespace
}  // namespace penstock::bench

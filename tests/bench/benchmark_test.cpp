#include "bench/benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "alloc/bytes.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

Job make_job(const TempDirectory& directory, const std::string& name) {
  Job job;
  job.name = name;
  job.directory = directory.path();
  job.size = kMiB;
  job.read_blocks = {{64 * kKiB, 100}};
  job.write_blocks = job.read_blocks;
  return job;
}

std::vector<std::string> names_of(const std::vector<JobResult>& results) {
  std::vector<std::string> names;
  for (const JobResult& result : results) {
    names.push_back(result.name + "/" + std::to_string(result.group));
  }
  return names;
}

TEST(BenchmarkTest, OneResultAThreadInTheOrderOfTheJobs) {
  const TempDirectory directory;
  std::vector<Job> jobs = {make_job(directory, "a"), make_job(directory, "b"),
                           make_job(directory, "c")};
  jobs[0].numjobs = 2;
  jobs[2].stonewall = true;
  const std::vector<JobResult> results = run_benchmark(jobs).value();
  EXPECT_EQ(names_of(results), (std::vector<std::string>{"a/0", "a/0", "b/0", "c/1"}));
  EXPECT_EQ(results[2].job, 1U);
  EXPECT_EQ(results[3].job, 2U);
  for (const JobResult& result : results) {
    EXPECT_EQ(result.read.io_bytes, kMiB);
    EXPECT_EQ(result.error, 0) << result.error_message;
    EXPECT_EQ(result.threads, 1U);
  }
}

TEST(BenchmarkTest, GroupReportingMakesOneOfNeighbours) {
  const TempDirectory directory;
  std::vector<Job> jobs = {make_job(directory, "a"), make_job(directory, "b"),
                           make_job(directory, "c")};
  for (Job& job : jobs) {
    job.group_reporting = true;
    job.numjobs = 3;
  }
  jobs[2].stonewall = true;
  const std::vector<JobResult> results = run_benchmark(jobs).value();
  ASSERT_EQ(names_of(results), (std::vector<std::string>{"a/0", "c/1"})) << "as fio 3.33 does";
  EXPECT_EQ(results[0].threads, 6U);
  EXPECT_EQ(results[0].read.io_bytes, 6 * kMiB);
  EXPECT_EQ(results[1].read.clat.count(), 48U);
}

TEST(BenchmarkTest, ThreadsThatShareAFileLayItOutOnce) {
  const TempDirectory directory;
  Job job = make_job(directory, "a");
  job.filenames = {"shared"};
  job.numjobs = 4;
  job.verify = true;
  for (const JobResult& result : run_benchmark({job}).value()) {
    EXPECT_EQ(result.error, 0) << result.error_message;
    EXPECT_EQ(result.read.io_bytes, kMiB);
  }
}

TEST(BenchmarkTest, AJobThatFailsLeavesTheOthersAlone) {
  const TempDirectory directory;
  std::vector<Job> jobs = {make_job(directory, "bad"), make_job(directory, "good"),
                           make_job(directory, "later")};
  jobs[0].directory = directory / "none";
  jobs[2].stonewall = true;
  const std::vector<JobResult> results = run_benchmark(jobs).value();
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].error, ENOENT);
  EXPECT_THAT(results[0].error_message, testing::HasSubstr("none"));
  EXPECT_EQ(results[1].read.io_bytes, kMiB);
  EXPECT_EQ(results[2].read.io_bytes, kMiB);
}

TEST(BenchmarkTest, AnErrorWithoutErrnoIsEinval) {
  const TempDirectory directory;
  Job job = make_job(directory, "a");
  job.size = 0;
  const std::vector<JobResult> results = run_benchmark({job}).value();
  EXPECT_EQ(results[0].error, EINVAL);
  EXPECT_FALSE(results[0].error_message.empty());
}

TEST(BenchmarkTest, NoJobsIsAnError) {
  EXPECT_TRUE(run_benchmark({}).has_error());
}

TEST(BenchmarkTest, AnInterruptionEndsEveryJobAndBeginsNoOther) {
  const TempDirectory directory;
  std::vector<Job> jobs = {make_job(directory, "a"), make_job(directory, "b"),
                           make_job(directory, "c")};
  for (Job& job : jobs) {
    job.time_based = true;
    job.runtime_ns = 3600'000'000'000;
  }
  jobs[2].stonewall = true;
  std::atomic<int> seen{0};
  std::atomic<bool> interrupted{false};
  const auto watch = [&](const BenchmarkProgress& progress) {
    if (progress.jobs_running == 2 && progress.read_bytes > 0) {
      ++seen;
      interrupted = true;
    }
  };
  const std::vector<JobResult> results =
      run_benchmark(jobs, {.progress = watch, .interrupted = [&] { return interrupted.load(); }})
          .value();
  EXPECT_GE(seen.load(), 1);
  ASSERT_EQ(results.size(), 3U);
  for (const JobResult& result : results) {
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.error, 0) << result.error_message;
  }
  EXPECT_GT(results[0].read.io_bytes, 0U);
  EXPECT_EQ(results[2].read.io_bytes, 0U) << "was never begun";
}

}  // namespace
}  // namespace penstock::bench

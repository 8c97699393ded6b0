#include "bench/benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>

#include "alloc/bytes.h"
#include "tests/bench/swap_jobs.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

Job make_job(const TempDirectory& directory, const std::string& name) {
  Job job;
  job.name = name;
  job.directory = directory.path();
  job.size = kMiB;
  job.block_bytes = 64 * kKiB;
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

TEST(BenchmarkTest, TheSwapBlockOfAGroupIsThatOfAllItsThreads) {
  const TempDirectory directory;
  Job job = swap_job(write_inventory(directory, 2), Phase::kTrain);
  const SwapResult one = run_benchmark({job}).value().at(0).swap.value();
  ASSERT_GT(one.read_bytes, 0U);
  job.numjobs = 3;
  job.group_reporting = true;
  const std::vector<JobResult> results = run_benchmark({job}).value();
  ASSERT_EQ(results.size(), 1U);
  const SwapResult& all = results[0].swap.value();  // each thread has a drive of its own
  EXPECT_EQ(all.hits + all.late + all.misses, 3 * (one.hits + one.late + one.misses));
  EXPECT_EQ(all.read_bytes, 3 * one.read_bytes);
  EXPECT_EQ(all.write_bytes, 3 * one.write_bytes);
  EXPECT_EQ(all.stall_ns, 3 * one.stall_ns);
  EXPECT_NEAR(all.overlap(), one.overlap(), 1e-9);
}

TEST(BenchmarkTest, AnErrorWithoutErrnoIsEinval) {
  const TempDirectory directory;
  Job job = make_job(directory, "a");
  job.size = 0;
  const std::vector<JobResult> results = run_benchmark({job}).value();
  EXPECT_EQ(results[0].error, EINVAL);
  EXPECT_FALSE(results[0].error_message.empty());
}

TEST(BenchmarkTest, CpusAreKeptTo) {
  const TempDirectory directory;
  Job job = make_job(directory, "a");
  job.cpus_allowed.emplace();
  CPU_ZERO(&*job.cpus_allowed);
  CPU_SET(std::size_t{CPU_SETSIZE - 1}, &*job.cpus_allowed);  // no machine of ours has so many
  job.given["cpus_allowed"] = "1023";
  const std::vector<JobResult> refused = run_benchmark({job}).value();
  EXPECT_THAT(refused[0].error_message, testing::HasSubstr("cpus_allowed=1023"));
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(all), &all), 0);
  std::size_t last = 0;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    last = CPU_ISSET(cpu, &all) ? cpu : last;
  }
  CPU_ZERO(&*job.cpus_allowed);
  CPU_SET(last, &*job.cpus_allowed);
  job.time_based = true;
  job.runtime_ns = 3600'000'000'000;
  std::atomic<int> elsewhere{0};
  std::atomic<bool> seen{false};
  const auto watch = [&](const BenchmarkProgress& progress) {
    if (progress.jobs_running == 1 && progress.read_bytes > 0) {
      for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
        cpu_set_t its;
        const int id = std::stoi(thread.path().filename().string());
        if (::sched_getaffinity(id, sizeof(its), &its) == 0 && CPU_COUNT(&its) == 1) {
          elsewhere += CPU_ISSET(last, &its) ? 0 : 1;
          seen = true;
        }
      }
    }
  };
  const std::vector<JobResult> results =
      run_benchmark({job}, {.progress = watch, .interrupted = [&] { return seen.load(); }}).value();
  EXPECT_EQ(results[0].error, 0) << results[0].error_message;
  EXPECT_EQ(elsewhere, 0);
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

TEST(BenchmarkTest, AFileThatIsStoppedBeforeItIsCompleteGoes) {
  const TempDirectory directory;
  Job job = make_job(directory, "a");
  job.size = kGiB;  // more than is written before the first look
  job.unlink = true;
  int looks = 0;
  const auto results = run_benchmark({job}, {.interrupted = [&] { return looks++ > 0; }}).value();
  EXPECT_TRUE(results.front().interrupted);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace
}  // namespace penstock::bench

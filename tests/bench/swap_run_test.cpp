#include "bench/workload/workload_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "bench/job/job_value.h"
#include "swap/update/state_chunk.h"
#include "tests/bench/swap_jobs.h"

namespace penstock::bench {
namespace {

// What one request of these bytes takes the drive of round_drive(), in ns.
constexpr std::uint64_t read_ns(std::uint64_t bytes) {
  return (bytes * 1'000'000'000 + 1000 * kMiB - 1) / (1000 * kMiB);
}
constexpr std::uint64_t kLatencyNs = 80'000;
constexpr std::uint64_t kTrailerNs = read_ns(4096);  // the identity block
constexpr std::uint64_t kMiBNs = 1'000'000;

TEST(SwapRun, OnDemandTakesWhatTheDriveTakes) {
  const TempDirectory directory;
  Job job = swap_job(write_inventory(directory, 3), Phase::kForward);
  job.lookahead = 0;
  job.compute = Compute{2 * kMiBNs, Compute::Per::kTensor, true};
  job.loops = 2;
  const JobResult result = run_job(job);
  // By hand: each tensor's blocks and its identity one after the other, then a latency; no two
  // tensors overlap.
  const std::uint64_t loop_bytes = (8 + 3 * 6) * kMiB;
  const std::uint64_t stall = (8 + 3 * 6) * kMiBNs + 10 * (kTrailerNs + kLatencyNs);
  EXPECT_EQ(result.swap->stall_ns, 2 * stall);
  EXPECT_EQ(result.elapsed_ns, 2 * (stall + 10 * 2 * kMiBNs));
  EXPECT_EQ(result.swap->misses, 20U);
  EXPECT_EQ(result.swap->hits + result.swap->late, 0U);
  EXPECT_EQ(result.read.io_bytes, 2 * loop_bytes);
  EXPECT_EQ(result.swap->read_bytes, 2 * (loop_bytes + 10 * 4096));
  EXPECT_EQ(result.read.total_ios, 20U);
  EXPECT_EQ(result.read.clat.max(), 8 * kMiBNs + kTrailerNs + kLatencyNs);
  EXPECT_EQ(result.write.io_bytes, 0U);
  EXPECT_EQ(result.swap->overlap(), 0.0);
  EXPECT_EQ(result.swap->peak_live_bytes, 3 * kMiB) << "one in a slot; writing took more";
}

TEST(SwapRun, ReadingAheadHidesTheDriveBehindCompute) {
  const TempDirectory directory;
  Job job = swap_job(write_inventory(directory, 4), Phase::kForward);
  job.compute = Compute{20 * kMiBNs, Compute::Per::kTensor, true};  // more than any tensor takes
  job.max_pinned = 64 * kMiB;
  const JobResult result = run_job(job);
  EXPECT_EQ(result.swap->stall_ns, 0U);
  EXPECT_EQ(result.elapsed_ns, 13 * 20 * kMiBNs);
  EXPECT_EQ(result.swap->hits, 13U);
  EXPECT_EQ(result.swap->overlap(), 1.0);
  EXPECT_LE(result.swap->pinned_bytes, 64 * kMiB);
}

TEST(SwapRun, HasItsCourse) {
  const TempDirectory directory;
  Job job = swap_job(write_inventory(directory, 8), Phase::kTrain);
  job.compute = Compute{3'000'000, Compute::Per::kTensor, true};
  const JobResult result = run_job(job);
  ASSERT_TRUE(result.swap.has_value());
  const std::vector<Sample>& course = result.courses.at(0);
  ASSERT_GT(course.size(), 10U);
  std::uint64_t live_bytes = 0;
  for (const Sample& sample : course) {
    EXPECT_LE(sample.pinned_bytes, *job.max_pinned);
    EXPECT_LE(sample.live_bytes, sample.pinned_bytes);
    live_bytes = std::max(live_bytes, sample.live_bytes);
  }
  EXPECT_EQ(course.back().at_ns, result.elapsed_ns);
  EXPECT_EQ(course.back().read_bytes, result.swap->read_bytes);
  EXPECT_EQ(course.back().write_bytes, result.swap->write_bytes);
  EXPECT_EQ(course.back().stall_ns, result.swap->stall_ns);
  EXPECT_GT(live_bytes, 0U);
  EXPECT_LE(live_bytes, result.swap->peak_live_bytes);
}

TEST(SwapRun, EqualsItselfToTheLastDigit) {
  const TempDirectory directory;
  const std::string inventory = write_inventory(directory, 1);
  for (const Phase phase : {Phase::kForward, Phase::kTrain, Phase::kGenerate, Phase::kStep}) {
    Job job = swap_job(inventory, phase);
    job.compute = Compute{1'234'567, Compute::Per::kTensor, true};
    job.max_pinned = 8 * kMiB;
    job.loops = 2;
    const std::string first = figures(run_job(job));
    EXPECT_EQ(figures(run_job(job)), first) << static_cast<int>(phase);
  }
}

constexpr std::uint64_t kElements = (8 + 6) * kMiB / 2;  // of write_inventory(…, 1), bf16
constexpr std::uint64_t kChunks = kElements / kStateChunkElements;

TEST(SwapRun, MovesWhatThePhaseMoves) {
  const TempDirectory directory;
  const Job job = swap_job(write_inventory(directory, 1), Phase::kTrain);
  const JobResult result = run_job(job);
  // bf16 parameters twice; three fp32 states of each element there and back, parameters anew.
  EXPECT_EQ(result.write.total_ios, 4 + 3 * kChunks);
  EXPECT_EQ(result.write.io_bytes, kElements * (2 + 12));
  EXPECT_LE(result.read.io_bytes, kElements * (2 * 2 + 12));
  EXPECT_GE(result.read.io_bytes, kElements * 12);
  EXPECT_EQ(result.read.total_ios, 2 * 4 + 3 * kChunks);
  EXPECT_GE(result.elapsed_ns, result.swap->stall_ns);
  EXPECT_EQ(result.swap->cpu_ms_per_gb(result.cpu), 0.0);
}

TEST(SwapRun, AnUpdateReadsAndWritesEveryState) {
  const TempDirectory directory;
  Job job = swap_job(write_inventory(directory, 1), Phase::kStep);
  job.workload = Workload::kUpdate;
  job.loops = 2;
  for (const bool verify : {true, false}) {  // without, AdamW steps them
    job.verify = verify;
    const JobResult result = run_job(job);
    EXPECT_EQ(result.write.io_bytes, 2 * kElements * 12);
    EXPECT_EQ(result.read.total_ios, 2 * 3 * kChunks);
    EXPECT_GE(result.elapsed_ns, 2 * kElements * 12 * 1'000'000 / kMiB * 2);  // the writes alone
  }
}

TEST(SwapRun, AnUpdateOfWhatIsLessThanAChunk) {
  const TempDirectory directory;
  const std::string inventory = directory / "odd.json";
  std::ofstream(inventory) << R"({"tensors":[{"name":"w","dtype":"bf16","shape":[1242003]}]})";
  Job job = swap_job(inventory, Phase::kStep);
  job.workload = Workload::kUpdate;
  job.loops = 3;
  for (const bool verify : {true, false}) {
    job.verify = verify;
    EXPECT_EQ(run_job(job).write.io_bytes, 3 * 1'242'003 * 12U);
  }
}

TEST(SwapRun, FinishesWhenItsTimeIsOver) {
  const TempDirectory directory;
  Job job = swap_job(write_inventory(directory, 3), Phase::kForward);
  job.runtime_ns = 100 * kMiBNs;
  job.time_based = true;
  job.ramp_time_ns = 30 * kMiBNs;
  const JobResult result = run_job(job);
  EXPECT_GE(result.elapsed_ns, 100 * kMiBNs);
  EXPECT_LE(result.elapsed_ns, 110 * kMiBNs);  // and the largest tensor
}

TEST(SwapRun, StopsSoon) {
  const TempDirectory directory;
  const Job job = swap_job(write_inventory(directory, 3), Phase::kForward);
  auto run = make_workload_run(job, 0);
  RunControl control;
  ASSERT_TRUE(run->prepare(control).has_value());
  control.stop = true;
  JobResult result;
  EXPECT_TRUE(run->run(control, result).has_value());
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.read.total_ios, 0U);
}

TEST(SwapRun, StopsInTheMiddleOfComputing) {
  const TempDirectory directory;
  Job job = swap_job(write_inventory(directory, 1), Phase::kForward);
  job.simulated.reset();
  job.directory = directory.path();
  for (const bool spins : {true, false}) {
    job.compute = Compute{3600 * kSecondNs, Compute::Per::kTensor, spins};
    auto run = make_workload_run(job, 0);
    RunControl control;
    const std::jthread stopping([&control] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      control.stop = true;
    });
    EXPECT_TRUE(run->prepare(control).has_value()) << "in its loops to learn";
  }
}

TEST(SwapRun, RealFilesAtTheSameRatesAreNoFaster) {
  const TempDirectory directory;
  Job job = swap_job(write_inventory(directory, 3), Phase::kForward);
  job.directory = directory.path();
  job.lookahead = 0;  // each tensor on demand: nothing can have been read before
  job.loops = 3;
  const JobResult simulated = run_job(job);
  job.simulated->real_time = true;
  const JobResult real = run_job(job);
  EXPECT_GE(real.elapsed_ns, simulated.elapsed_ns);
  EXPECT_EQ(real.read.io_bytes, simulated.read.io_bytes);
  EXPECT_EQ(real.swap->read_bytes, simulated.swap->read_bytes);
  EXPECT_EQ(real.swap->misses, simulated.swap->misses);
}

TEST(SwapRun, RunsOnTheMachineAsItIs) {
  const TempDirectory directory;
  Job job = swap_job(write_inventory(directory, 1), Phase::kTrain);
  job.simulated.reset();
  job.directory = directory.path();
  job.loops = 2;
  const JobResult result = run_job(job);
  EXPECT_EQ(result.write.total_ios, 2 * (4 + 3 * kChunks));
  EXPECT_GT(result.swap->cpu_ms_per_gb(result.cpu), 0.0);
  EXPECT_FALSE(result.courses.at(0).empty());
}

TEST(SwapRun, AShareOfTheInventory) {
  const TempDirectory directory;
  Job job = swap_job(write_inventory(directory, 8), Phase::kForward);
  const std::uint64_t whole = run_job(job).read.io_bytes;
  job.size_percent = 50;
  EXPECT_NEAR(static_cast<double>(run_job(job).read.io_bytes), static_cast<double>(whole) / 2,
              static_cast<double>(whole) / 4);
}

}  // namespace
}  // namespace penstock::bench

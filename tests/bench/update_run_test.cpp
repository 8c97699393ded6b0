#include "bench/workload/swap/update_run.h"

#include <gtest/gtest.h>

#include "swap/update/state_chunk.h"
#include "tests/bench/swap_jobs.h"

namespace penstock::bench {
namespace {

Job update_job(const std::string& inventory) {
  Job job = swap_job(inventory, Phase::kStep);
  job.workload = Workload::kUpdate;
  return job;
}

constexpr std::uint64_t kElements = (8 + 6) * kMiB / 2;  // of write_inventory(…, 1), bf16

TEST(UpdateRun, ReadsStepsAndWritesEveryState) {
  const TempDirectory directory;
  Job job = update_job(write_inventory(directory, 1));
  job.loops = 2;
  const JobResult result = run_job(job);  // verify= compares every element
  EXPECT_EQ(result.write.io_bytes, 2 * kElements * 12);
  EXPECT_EQ(result.read.total_ios, 2 * ((kElements - 1) / kStateChunkElements + 1));
  EXPECT_GE(result.elapsed_ns, 2 * kElements * 12 * 1'000'000 / kMiB * 2);  // the writes alone
}

// verify= compares the elements behind the last whole vector, too, which are computed otherwise.
TEST(UpdateRun, ComparesWhatRemainsBehindTheLastVector) {
  const TempDirectory directory;
  const std::string inventory = directory / "odd.json";
  std::ofstream(inventory) << R"({"tensors":[{"name":"w","dtype":"bf16","shape":[1242003]}]})";
  Job job = update_job(inventory);
  job.loops = 3;
  EXPECT_EQ(run_job(job).write.io_bytes, 3 * 1'242'003 * 12U);
}

TEST(UpdateRun, EqualsItselfToTheLastDigit) {
  const TempDirectory directory;
  Job job = update_job(write_inventory(directory, 1));
  job.compute = Compute{5'000'000, Compute::Per::kGigabyte, true};
  const std::string first = figures(run_job(job));
  EXPECT_EQ(figures(run_job(job)), first);
}

TEST(UpdateRun, RunsOnTheMachineAsItIs) {
  const TempDirectory directory;
  Job job = update_job(write_inventory(directory, 1));
  job.simulated.reset();
  job.directory = directory.path();
  const JobResult result = run_job(job);
  EXPECT_EQ(result.write.io_bytes, 7 * kMiB * 12);
}

}  // namespace
}  // namespace penstock::bench

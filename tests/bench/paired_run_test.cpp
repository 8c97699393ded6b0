#include "bench/pair/paired_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "alloc/bytes.h"
#include "bench/process/child_process.h"
#include "tests/bench/swap_jobs.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

using testing::Each;
using testing::Gt;
using testing::HasSubstr;
using testing::SizeIs;

// One round of a search, whatever the time.
const PairedRunOptions kShort{.search = {.rounds_max = 1, .rounds_min = 1}};

class PairedRunTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto version = ChildProcess::start({{"fio", "--version"}, {}, "fio"});
    if (version.has_error()) {
      GTEST_SKIP() << version.error().message;
    }
  }
  Job job() const {
    Job job;
    job.name = "paired";
    job.directory = directory_.path();
    job.size = 4 * kMiB;
    job.engine = EngineKind::kThreads;
    job.iodepth = 2;
    job.block_bytes = kMiB;
    job.peer = Peer::kFio;
    job.pairs = 2;
    return job;
  }
  std::string file() const { return directory_ / "paired.0.0"; }

  TempDirectory directory_;
};

TEST_F(PairedRunTest, BothWriteAndTheFilesGo) {
  Job writing = job();
  writing.direction = {.reads = true, .writes = true};
  writing.unlink = true;
  const auto result = run_pair(writing, kShort);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->read.io_bytes + result->write.io_bytes, 4 * kMiB);
  EXPECT_THAT(result->pair->bandwidth.all, SizeIs(2));
  EXPECT_FALSE(std::filesystem::exists(file()));
}

// Slowly, for fio counts in milliseconds.
TEST_F(PairedRunTest, AFileOfAnOddSizeIsLaidOutInBlocksThatFit) {
  Job writing = job();
  writing.direction = {.reads = false, .writes = true};
  writing.filename = "paired.0.0";
  writing.rate = 4 * kMiB;
  writing.pairs = 1;
  const std::uint64_t there = 256 * kKiB;
  for (const auto& [size, block] : {std::pair{66'536UL, 4 * kKiB}, {0, kKiB}}) {
    writing.size = size;
    writing.block_bytes = block;
    if (size == 0) {
      std::filesystem::resize_file(file(), there);
    }
    const auto result = run_pair(writing, kShort);
    ASSERT_TRUE(result.has_value()) << size << ": " << result.error().message;
    EXPECT_EQ(result->write.io_bytes, (size == 0 ? there : size) / block * block);
  }
}

TEST_F(PairedRunTest, JobsWithAndWithoutAPeerKeepTheirOrder) {
  Job alone = job();
  alone.peer = Peer::kNone;
  alone.name = "alone";
  Job wrong = job();
  wrong.name = "wrong";
  wrong.directory = directory_ / "none";
  const auto results = run_with_peers({alone, wrong, job(), alone}, kShort);
  ASSERT_TRUE(results.has_value()) << results.error().message;
  ASSERT_THAT(*results, SizeIs(4));
  const std::vector<std::string> names{"alone", "wrong", "paired", "alone"};
  for (std::uint32_t place = 0; place < 4; ++place) {
    EXPECT_EQ((*results)[place].name, names[place]);
    EXPECT_EQ((*results)[place].job, place);
    EXPECT_EQ((*results)[place].group, place);
    EXPECT_EQ((*results)[place].pair.has_value(), place == 2);
  }
  EXPECT_EQ((*results)[1].error, ENOENT);
}

TEST_F(PairedRunTest, AnInterruptEndsIt) {
  PairedRunOptions options = kShort;
  options.benchmark.interrupted = [] { return true; };
  const auto result = run_pair(job(), options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->interrupted);
  EXPECT_FALSE(result->pair.has_value());
}

TEST_F(PairedRunTest, APeerOfASwapJobHasAFileOfItsOwnWhereTheStoreIs) {
  const std::string users = directory_ / "paired.uniform.0.0";
  std::ofstream(users) << "of the user's";
  Job swaps = job();
  swaps.workload = Workload::kSwap;
  swaps.inventory = write_inventory(directory_, 1);
  const auto result = run_pair(swaps, kShort);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->pair.has_value());
  EXPECT_EQ(std::filesystem::file_size(users), 13U);
  swaps.directory = "";
  swaps.config = directory_ / "ds.json";
  std::ofstream(swaps.config) << fmt::format(
      R"({{"penstock": {{"paths": [{{"path": "{0}/a"}}, {{"path": "{0}/b"}}]}}, "zero_optimization":
          {{"stage": 3, "offload_param": {{"device": "nvme", "nvme_path": "{0}"}}}}}})",
      directory_.path());
  const auto refused = run_pair(swaps, kShort);
  ASSERT_TRUE(refused.has_error());
  EXPECT_THAT(refused.error().message, HasSubstr("say which by directory="));
}

TEST_F(PairedRunTest, AShareOfAFileIsTheSameForBoth) {
  std::ofstream(file()) << std::string(4 * kMiB, 'x');
  Job half = job();
  half.size = 0;
  half.size_percent = 50;
  const auto result = run_pair(half, kShort);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->read.io_bytes, 2 * kMiB);
  EXPECT_THAT(result->pair->cpu.all, SizeIs(2));
  EXPECT_LE(result->pair->cpu.low, result->pair->cpu.median);
  EXPECT_GE(result->pair->cpu.high, result->pair->cpu.median);
}

}  // namespace
}  // namespace penstock::bench

#include "bench/tune/drive_tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <mutex>

#include "alloc/bytes.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

TuningRequest request_for(std::vector<std::string> paths) {
  TuningRequest request;
  TrainingSetup setup;
  setup.inventory.tensors = {{"a", DType::kU8, {2 * kMiB}, Role::kParam},
                             {"b", DType::kU8, {5 * kMiB}, Role::kParam}};
  request.mix = drive_mix(rank_tensors(setup), kGiB).value();
  request.paths = std::move(paths);
  request.budget = std::chrono::milliseconds(300);
  return request;
}

class DriveTuningTest : public testing::Test {
 protected:
  void SetUp() override {
    const Result<File> probe = File::create_scratch(directory_.path());
    if (!probe.has_value() || !probe->direct().supported) {
      GTEST_SKIP() << "no direct I/O below PENSTOCK_TMP";
    }
  }

  const TempDirectory directory_;
};

TEST_F(DriveTuningTest, MeasuresAndLeavesNothing) {
  TuningRequest request = request_for({directory_.path()});
  std::vector<std::string> shown;
  request.progress = [&shown](const TuningProgress& progress) { shown.push_back(progress.doing); };
  const Result<DriveTuning> tuning = tune_drives(request);
  ASSERT_TRUE(tuning.has_value()) << tuning.error().message;
  EXPECT_TRUE(tuning->measured());
  EXPECT_FALSE(tuning->interrupted);
  EXPECT_GE(tuning->trials, 3U);
  EXPECT_GT(tuning->paths[0].read, 0);
  EXPECT_GT(tuning->paths[0].write, 0);
  EXPECT_DOUBLE_EQ(tuning->used_bytes_per_second(), tuning->paths[0].mixed);
  EXPECT_EQ(shown.front(), "laying out files");
  EXPECT_TRUE(fs::is_empty(directory_.path()));
}

TEST_F(DriveTuningTest, InterruptedBeforeAnything) {
  TuningRequest request = request_for({directory_.path()});
  request.budget = std::chrono::hours(1);
  std::atomic<bool> asked{true};
  request.interrupted = [&asked] { return asked.load(); };
  const Result<DriveTuning> tuning = tune_drives(request);
  ASSERT_TRUE(tuning.has_value()) << tuning.error().message;
  EXPECT_TRUE(tuning->interrupted);
  EXPECT_TRUE(fs::is_empty(directory_.path()));
}

// Once all paths have been measured, that is kept.
TEST_F(DriveTuningTest, InterruptedOnTheWay) {
  const std::vector<std::string> paths{directory_.path() + "/a", directory_.path() + "/b"};
  fs::create_directory(paths[0]);
  fs::create_directory(paths[1]);
  TuningRequest request = request_for(paths);
  request.budget = std::chrono::seconds(3);
  std::atomic<bool> searching{false};
  request.progress = [&searching](const TuningProgress& progress) {
    searching = searching || progress.doing == "all paths together";
  };
  request.interrupted = [&searching] { return searching.load(); };
  const Result<DriveTuning> tuning = tune_drives(request);
  ASSERT_TRUE(tuning.has_value()) << tuning.error().message;
  EXPECT_TRUE(tuning->interrupted);
  EXPECT_TRUE(tuning->measured());
  EXPECT_EQ(tuning->used.size(), 1U);
  EXPECT_TRUE(fs::is_empty(paths[0]) && fs::is_empty(paths[1]));
}

TEST_F(DriveTuningTest, ATrialReadsAndWrites) {
  const TuningRequest request = request_for({directory_.path()});
  RunControl control;
  const auto trial = DriveTrial::prepare(request.mix, request.paths, control);
  ASSERT_TRUE(trial.has_value()) << trial.error().message;
  EXPECT_TRUE(fs::is_empty(directory_.path())) << "files have no names while they are used";
  const TrialLoad load{0.5, std::chrono::milliseconds(20)};
  const std::size_t path = 0;
  const Result<MeasuredRun> run = (*trial)->run({&path, 1}, EngineKind::kThreads, load);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_GT(run->read_bytes, 0U);
  EXPECT_GT(run->write_bytes, 0U);
  control.stop = true;
  EXPECT_EQ((*trial)->run({&path, 1}, EngineKind::kThreads, load).error().system_errno(),
            ECANCELED);
}

}  // namespace
}  // namespace penstock::bench

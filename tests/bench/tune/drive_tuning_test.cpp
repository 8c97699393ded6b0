#include "bench/tune/drive_tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <mutex>

#include "alloc/bytes.h"
#include "io/file.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

TuningRequest request_for(std::vector<std::string> paths) {
  TuningRequest request;
  request.mix = {2, 7 * kMiB, 10 * kMiB, 8 * kMiB};
  request.file_bytes = 8 * kMiB;
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
  request.budget = std::chrono::milliseconds(1);
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

TEST_F(DriveTuningTest, TwoPathsAtOnceAreComparedInTurns) {
  TuningRequest request = request_for({directory_.path(), directory_.path()});
  request.budget = std::chrono::milliseconds(1);  // which is over before the first turn
  const Result<DriveTuning> tuning = tune_drives(request);
  ASSERT_TRUE(tuning.has_value()) << tuning.error().message;
  ASSERT_TRUE(tuning->together.has_value());
  EXPECT_EQ(tuning->together->turns, 2U);
  EXPECT_GT(tuning->together->after, 0);
  EXPECT_EQ(tuning->used.size(), tuning->together->is_real() ? 2U : 1U);
  EXPECT_TRUE(fs::is_empty(directory_.path()));
}

TEST(AdvantageTest, ThreeTurnsAndAnIntervalAboveOne) {
  EXPECT_TRUE((Advantage{1.1, {1.01, 1.2}, 3, 1.1}).is_real());
  EXPECT_FALSE((Advantage{1.1, {1.01, 1.2}, 2, 1.1}).is_real());
  EXPECT_FALSE((Advantage{1.1, {0.99, 1.2}, 6, 1.1}).is_real());
  EXPECT_FALSE((Advantage{1.02, {1.01, 1.2}, 6, 1.1}).is_real());
}

}  // namespace
}  // namespace penstock::bench

#include "bench/tune/setting_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace penstock::bench {
namespace {

using testing::ElementsAre;

const std::vector<SettingAxis> kAxes{{"depth", {4, 8, 16, 32}}, {"threads", {1, 2}}};
const SettingPoint kPresent{8, 1};

Leg leg(double gigabytes_per_second) {
  return {.read_bytes = 1'000'000'000, .seconds = 1 / gigabytes_per_second, .cpu_seconds = 0.01};
}

// A drive whose speed a test makes up, which counts what was run.
class FakeDrive {
 public:
  explicit FakeDrive(std::function<double(const SettingPoint&)> speed) : speed_(std::move(speed)) {}

  SettingSearch search() {
    SettingSearch search;
    search.run = [this](const SettingPoint& point) -> Result<Leg> {
      ++runs;
      ++runs_of[point];
      return leg(speed_(point));
    };
    return search;
  }

  std::size_t runs = 0;
  std::map<SettingPoint, std::size_t> runs_of;

 private:
  std::function<double(const SettingPoint&)> speed_;
};

TEST(SettingSearchTest, FindsTheBestOfEachAxis) {
  FakeDrive drive([](const SettingPoint& point) {
    return (point[0] == 32 ? 2.0 : 1.0) * (point[1] == 2 ? 1.5 : 1.0);
  });
  const SettingSearchResult result = search_settings(kAxes, kPresent, drive.search());
  EXPECT_THAT(result.best, ElementsAre(32, 2));
  ASSERT_EQ(result.findings.size(), 2U);
  EXPECT_EQ(result.findings[0].before, 8U);
  EXPECT_EQ(result.findings[0].after, 32U);
  EXPECT_DOUBLE_EQ(result.findings[0].advantage->ratio, 2.0);
  EXPECT_DOUBLE_EQ(result.whole->ratio, 3.0);
  EXPECT_DOUBLE_EQ(result.whole->before, 1e9);
  EXPECT_DOUBLE_EQ(result.whole->after, 3e9);
  EXPECT_DOUBLE_EQ(result.best_bytes_per_second, 3e9);
}

TEST(SettingSearchTest, KeepsWhatIsThereWhereNothingIsFaster) {
  FakeDrive drive([](const SettingPoint&) { return 1.0; });
  const SettingSearchResult result = search_settings(kAxes, kPresent, drive.search());
  EXPECT_EQ(result.best, kPresent);
  EXPECT_FALSE(result.findings[0].advantage.has_value());
  EXPECT_FALSE(result.whole.has_value());
  EXPECT_DOUBLE_EQ(result.present_bytes_per_second, 1e9);
  // Two looks at four depths and two numbers of threads, and no turns.
  EXPECT_EQ(drive.runs, 2U * (4 + 2));
}

TEST(SettingSearchTest, OfThoseWithinThreePercentOfTheBestTheCheapest) {
  FakeDrive drive([](const SettingPoint& point) {
    return point[0] < 16 ? 1.0 : 2.0 + 1e-3 * static_cast<double>(point[0]);
  });
  EXPECT_THAT(search_settings(kAxes, kPresent, drive.search()).best, ElementsAre(16, 1));
}

// 16 is five per cent faster in the first look and as fast afterwards.
TEST(SettingSearchTest, LuckInTheFirstLookChangesNothing) {
  std::size_t lucky = 2;
  FakeDrive drive([&lucky](const SettingPoint& point) {
    if (point[0] != 16 || lucky == 0) {
      return 1.0;
    }
    --lucky;
    return 1.05;
  });
  const SettingSearchResult result = search_settings(kAxes, kPresent, drive.search());
  EXPECT_EQ(result.best, kPresent);
  ASSERT_TRUE(result.findings[0].advantage.has_value());
  EXPECT_EQ(result.findings[0].tried, 16U);
  EXPECT_FALSE(result.findings[0].advantage->is_real());
}

// Noise of +-20 %: depth 32 is faster by 4 % on average, which six turns do not show.
TEST(SettingSearchTest, NoiseChangesNothing) {
  std::size_t run = 0;
  FakeDrive drive([&run](const SettingPoint& point) {
    constexpr std::array kNoise{1.2, 0.85, 0.8, 1.15, 1.0};
    return kNoise[run++ % kNoise.size()] * (point[0] == 32 ? 1.04 : 1.0);
  });
  const SettingSearchResult result = search_settings({{"depth", {8, 32}}}, {8}, drive.search());
  EXPECT_THAT(result.best, ElementsAre(8));
}

TEST(SettingSearchTest, ChangesThatDoNotAddUpAreAllDropped) {
  // Each axis is faster by itself, at the time it is looked at; both together are as slow as
  // before.
  FakeDrive* drive = nullptr;
  FakeDrive made([&drive](const SettingPoint& point) {
    const bool both = point[0] == 32 && point[1] == 2;
    const bool confirming = drive->runs_of[{32, 2}] > 8;  // two looks, six turns
    return both ? (confirming ? 1.0 : 1.5) : point[0] == 32 ? 1.2 : 1.0;
  });
  drive = &made;
  const SettingSearchResult result = search_settings(kAxes, kPresent, made.search());
  EXPECT_EQ(result.best, kPresent);
  EXPECT_TRUE(result.whole.has_value());
  EXPECT_EQ(result.findings[1].after, 2U);
}

TEST(SettingSearchTest, APointThatFailsIsOut) {
  SettingSearch search;
  search.run = [](const SettingPoint& point) -> Result<Leg> {
    return point[0] == 32 ? Result<Leg>(fault(Fault::kUnsupported, "too deep"))
                          : Result<Leg>(leg(point[0] == 16 ? 2 : 1));
  };
  EXPECT_THAT(search_settings(kAxes, kPresent, search).best, ElementsAre(16, 1));
}

TEST(SettingSearchTest, APresentPointThatFailsEndsTheSearch) {
  SettingSearch search;
  search.run = [](const SettingPoint&) -> Result<Leg> {
    return fault(Fault::kUnsupported, "no libaio here");
  };
  const SettingSearchResult result = search_settings(kAxes, kPresent, search);
  EXPECT_EQ(result.best, kPresent);
  ASSERT_TRUE(result.present_refusal.has_value());
  EXPECT_EQ(result.present_refusal->message, "no libaio here");
  EXPECT_TRUE(result.findings.empty());
}

TEST(SettingSearchTest, PointsThatAreNotAllowedAreNotRun) {
  FakeDrive drive([](const SettingPoint& point) { return static_cast<double>(point[0]); });
  SettingSearch search = drive.search();
  search.is_allowed = [](const SettingPoint& point) { return point[0] <= 16; };
  EXPECT_THAT(search_settings(kAxes, kPresent, search).best, ElementsAre(16, 1));
  EXPECT_EQ(drive.runs_of.count({32, 1}), 0U);
}

// Whenever the budget of trials ends, no round begins after it, and what was confirmed by then
// stays.
TEST(SettingSearchTest, NoRoundBeginsAfterTheBudget) {
  for (std::size_t budget = 0; budget < 60; ++budget) {
    FakeDrive drive([](const SettingPoint& point) {
      return (point[0] == 32 ? 2.0 : 1.0) * (point[1] == 2 ? 1.5 : 1.0);
    });
    SettingSearch search = drive.search();
    search.is_over = [&drive, budget] { return drive.runs >= budget; };
    const SettingSearchResult result = search_settings(kAxes, kPresent, search);
    EXPECT_LT(drive.runs, budget + 4) << "a round has four runs at most";
    EXPECT_EQ(result.best[0], drive.runs >= 14 ? 32U : 8U) << budget;  // two looks, three turns
    EXPECT_DOUBLE_EQ(result.best_bytes_per_second,
                     drive.runs < 4
                         ? 0
                         : (result.best[0] == 32 ? 2e9 : 1e9) * (result.best.at(1) == 2 ? 1.5 : 1));
  }
}

TEST(SettingSearchTest, AnInterruptedRoundDoesNotCount) {
  FakeDrive drive([](const SettingPoint& point) { return point[0] == 32 ? 2.0 : 1.0; });
  SettingSearch search = drive.search();
  search.interrupted = [&drive] { return drive.runs >= 3; };
  const SettingSearchResult result = search_settings(kAxes, kPresent, search);
  EXPECT_EQ(drive.runs, 3U);
  EXPECT_EQ(result.best, kPresent);
  EXPECT_TRUE(result.findings.empty());
}

TEST(SettingSearchTest, TheDriveMayDrift) {
  double drift = 1;
  FakeDrive drive([&drift](const SettingPoint& point) {
    drift *= 0.98;
    return drift * (point[0] == 16 ? 1.25 : 1.0);
  });
  EXPECT_THAT(search_settings({{"depth", {8, 16}}}, {8}, drive.search()).best, ElementsAre(16));
}

}  // namespace
}  // namespace penstock::bench

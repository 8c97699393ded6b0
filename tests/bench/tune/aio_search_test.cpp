#include "bench/tune/aio_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "alloc/bytes.h"

namespace penstock::bench {
namespace {

const AioSettings kPresent{kMiB, 16, 2};

MeasuredRun run_of(double bytes_per_second) {
  MeasuredRun run;
  run.read_bytes = 1'000'000;
  run.seconds = 1e6 / bytes_per_second;
  return run;
}

/// Bandwidths by depth.
AioSearchResult search(const std::map<std::uint32_t, double>& speeds,
                       const SearchStops& stops = {}) {
  std::vector<AioSettings> trials;
  for (const auto& [depth, speed] : speeds) {
    if (depth != kPresent.depth) {
      trials.push_back({kMiB, depth, 1});
    }
  }
  return search_aio(
      kPresent, trials,
      [&](const AioSettings& settings) {
        return Result<MeasuredRun>(run_of(speeds.at(settings.depth)));
      },
      stops);
}

TEST(AioTrialsTest, FitTheMachineAndLeaveOutThePresentOnes) {
  EXPECT_EQ(aio_trials(kPresent, 8).size(), 3U) << "32 MiB a thread on four threads is too much";
  EXPECT_EQ(aio_trials({256 * kKiB, 8, 1}, 8).size(), 3U);
  for (const AioSettings& settings : aio_trials(kPresent, 2)) {
    EXPECT_EQ(settings.threads, 1U);
    EXPECT_EQ(settings.block_bytes, kMiB);
  }
}

TEST(AioSearchTest, WhatIsFasterBeyondTheNoiseWins) {
  const AioSearchResult result = search({{16, 1e9}, {8, 0.9e9}, {32, 1.5e9}});
  EXPECT_EQ(result.best.depth, 32U);
  ASSERT_TRUE(result.advantage.has_value());
  EXPECT_NEAR(result.advantage->ratio, 1.5, 1e-9);
  EXPECT_EQ(result.advantage->turns, 6U);
  EXPECT_NEAR(result.present_bytes_per_second, 1e9, 1);
  EXPECT_NEAR(result.best_bytes_per_second, 1.5e9, 1);
}

TEST(AioSearchTest, AmongEqualsTheCheapestIsTriedAndTheNoiseChangesNothing) {
  EXPECT_EQ(search({{16, 1e9}, {8, 1.5e9}, {32, 1.51e9}}).best.depth, 8U);
  const AioSearchResult small = search({{16, 1e9}, {32, 1.02e9}});
  EXPECT_EQ(small.best, kPresent);
  EXPECT_EQ(small.tried, kPresent) << "as good, and there already";
  EXPECT_FALSE(small.advantage.has_value());
}

TEST(AioSearchTest, WhatDoesNotRunIsOut) {
  const auto refuse = [](const AioSettings& settings) {
    return settings == kPresent ? Result<MeasuredRun>(fault(Fault::kUnsupported, "no"))
                                : Result<MeasuredRun>(run_of(1e9));
  };
  const AioSearchResult result = search_aio(kPresent, {{kMiB, 32, 1}}, refuse, {});
  ASSERT_TRUE(result.refusal.has_value());
  EXPECT_EQ(result.best, kPresent);
  const auto others = [](const AioSettings& settings) {
    return settings == kPresent ? Result<MeasuredRun>(run_of(1e9))
                                : Result<MeasuredRun>(fault(Fault::kUnsupported, "no"));
  };
  EXPECT_EQ(search_aio(kPresent, {{kMiB, 32, 1}}, others, {}).best, kPresent);
}

TEST(AioSearchTest, TimeThatIsOverLeavesThePresentOnes) {
  const AioSearchResult result =
      search({{16, 1e9}, {32, 2e9}}, {.is_over = [] { return true; }, .interrupted = {}});
  EXPECT_FALSE(result.was_run);
  EXPECT_EQ(result.best, kPresent);
  int asked = 0;
  const AioSearchResult interrupted = search(
      {{16, 1e9}, {32, 2e9}}, {.is_over = {}, .interrupted = [&asked] { return ++asked > 6; }});
  EXPECT_EQ(interrupted.tried.depth, 32U);
  EXPECT_EQ(interrupted.best, kPresent) << "one turn says nothing";
}

TEST(AdvantageTest, ThreeTurnsAndAnIntervalAboveOne) {
  EXPECT_TRUE((Advantage{1.1, {1.01, 1.2}, 3, 1, 1.1}).is_real());
  EXPECT_FALSE((Advantage{1.1, {1.01, 1.2}, 2, 1, 1.1}).is_real());
  EXPECT_FALSE((Advantage{1.1, {0.99, 1.2}, 6, 1, 1.1}).is_real());
  EXPECT_FALSE((Advantage{1.02, {1.01, 1.2}, 6, 1, 1.1}).is_real());
}

}  // namespace
}  // namespace penstock::bench

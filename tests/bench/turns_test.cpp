#include "bench/pair/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace penstock::bench {
namespace {

using testing::ElementsAre;

MeasuredRun run(std::uint64_t bytes, double seconds, double cpu_seconds = 1) {
  return {.read_bytes = bytes, .seconds = seconds, .cpu_seconds = cpu_seconds};
}

TEST(MeasuredRunTest, BandwidthAndCost) {
  const MeasuredRun both{
      .read_bytes = 1'500'000'000, .write_bytes = 500'000'000, .seconds = 4, .cpu_seconds = 0.02};
  EXPECT_DOUBLE_EQ(both.bytes_per_second(), 5e8);
  EXPECT_DOUBLE_EQ(both.cpu_ms_per_gb(), 10);
}

TEST(TurnsTest, TheOrderIsThereAndBack) {
  std::string order;
  const auto side_of = [&order](char side) {
    return [&order, side]() -> Result<MeasuredRun> {
      order += side;
      return run(side == 'A' ? 2 : 1, 1);
    };
  };
  const auto pairs = take_turns(3, side_of('A'), side_of('B'));
  ASSERT_TRUE(pairs.has_value());
  EXPECT_EQ(order, "ABBAAB");
  for (const RunPair& pair : *pairs) {
    EXPECT_EQ(pair.ours.read_bytes, 2U);
    EXPECT_EQ(pair.theirs.read_bytes, 1U);
  }
}

TEST(TurnsTest, TheFirstErrorEndsThem) {
  int calls = 0;
  const auto ours = [&calls]() -> Result<MeasuredRun> { return run(1, ++calls); };
  const auto theirs = []() -> Result<MeasuredRun> {
    return fault(Fault::kUnsupported, "no such peer");
  };
  const auto pairs = take_turns(10, ours, theirs);
  ASSERT_TRUE(pairs.has_error());
  EXPECT_EQ(pairs.error().message, "no such peer");
  EXPECT_EQ(calls, 1);
}

TEST(TurnsTest, AnInterruptEndsThemAfterAWholePair) {
  int runs = 0;
  const auto counted = [&runs]() -> Result<MeasuredRun> {
    ++runs;
    return run(1, 1);
  };
  const auto pairs = take_turns(10, counted, counted, [&runs] { return runs >= 3; });
  ASSERT_TRUE(pairs.has_value());
  EXPECT_EQ(pairs->size(), 2U);
  EXPECT_EQ(runs, 4);
}

// Bandwidths 100/100, 120/100, 90/100, 100/50; CPU a byte 1/1, 1/2, 2/1, 1/1.
TEST(TurnsTest, RatiosOfFourPairs) {
  const std::vector<RunPair> pairs{{run(100, 1, 1), run(100, 1, 1)},
                                   {run(120, 1, 1.2), run(100, 1, 2)},
                                   {run(90, 1, 1.8), run(100, 1, 1)},
                                   {run(100, 1, 1), run(100, 2, 1)}};
  const PairResult result = compare_runs(pairs);
  EXPECT_EQ(result.pairs, 4U);
  EXPECT_THAT(result.ratios, ElementsAre(1, 1.2, 0.9, 2));
  EXPECT_DOUBLE_EQ(result.ratio_median, 1.1);
  EXPECT_DOUBLE_EQ(result.ratio_iqr, 1.4 - 0.975);
  EXPECT_GE(result.ratio_low, 0.9);
  EXPECT_LE(result.ratio_high, 2);
  EXPECT_LT(result.ratio_low, result.ratio_high);
  EXPECT_DOUBLE_EQ(result.cpu_ratio_median, 1);
  EXPECT_EQ(median_pair(pairs), 0U);
}

}  // namespace
}  // namespace penstock::bench

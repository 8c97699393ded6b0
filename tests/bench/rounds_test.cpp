#include "bench/pair/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace penstock::bench {
namespace {

using testing::ElementsAre;

const RoundLimits kThreeRounds{.rounds_max = 3, .rounds_min = 1};

MeasuredRun measured(double gigabytes_per_second, double cpu_ms_per_gb) {
  return {.read_bytes = 1'000'000'000,
          .seconds = 1 / gigabytes_per_second,
          .cpu_seconds = cpu_ms_per_gb / 1000};
}

TEST(RoundsTest, CandidatesTakeTurnsThereAndBack) {
  std::vector<std::size_t> order;
  const auto run = [&order](std::size_t at) -> Result<MeasuredRun> {
    order.push_back(at);
    return measured(1, 1);
  };
  ASSERT_TRUE(find_best_settings(3, run, kThreeRounds).has_value());
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 2, 1, 0, 0, 1, 2));
}

TEST(RoundsTest, TheFasterOneWins) {
  const auto run = [](std::size_t at) -> Result<MeasuredRun> {
    return at == 1 ? measured(2.0, 30) : measured(1.8, 10);
  };
  EXPECT_EQ(find_best_settings(3, run, kThreeRounds).value(), 1U);
}

TEST(RoundsTest, OfEquallyFastOnesTheCheaper) {
  const auto run = [](std::size_t at) -> Result<MeasuredRun> {
    return at == 2 ? measured(1.98, 10) : measured(2.0, 30);
  };
  EXPECT_EQ(find_best_settings(3, run, kThreeRounds).value(), 2U);
}

// Shares of the round's best: 0.5, 1, 1 and 1, 0.9, 0.9. A lucky round of the second one is no
// reason to spend its CPU.
TEST(RoundsTest, LuckIsNoReasonToSpendMore) {
  int runs = 0;
  const auto run = [&runs](std::size_t at) -> Result<MeasuredRun> {
    const bool unlucky = runs++ < 2;
    return at == 0 ? measured(unlucky ? 1.0 : 2.0, 10) : measured(unlucky ? 2.0 : 1.8, 30);
  };
  EXPECT_EQ(find_best_settings(2, run, kThreeRounds).value(), 0U);
}

// The drive slows down to a third while the search goes on; candidate 0 is a tenth slower.
TEST(RoundsTest, ADriveThatDriftsMakesNoDifference) {
  double drive = 3;
  const auto run = [&drive](std::size_t at) -> Result<MeasuredRun> {
    drive *= 0.97;
    return measured(at == 0 ? drive * 0.9 : drive, at == 0 ? 5 : 10);
  };
  EXPECT_EQ(find_best_settings(2, run, {.rounds_max = 5, .rounds_min = 1}).value(), 1U);
}

TEST(RoundsTest, OneThatFailsIsOut) {
  int tries = 0;
  const auto run = [&tries](std::size_t at) -> Result<MeasuredRun> {
    if (at == 0) {
      ++tries;
      return fault(Fault::kUnsupported, "no such engine");
    }
    return measured(1, 1);
  };
  EXPECT_EQ(find_best_settings(2, run, kThreeRounds).value(), 1U);
  EXPECT_EQ(tries, 1);
}

TEST(RoundsTest, NoneIsLeft) {
  const auto run = [](std::size_t at) -> Result<MeasuredRun> {
    return fault(Fault::kUnsupported, at == 0 ? "the first" : "another");
  };
  const auto best = find_best_settings(2, run, kThreeRounds);
  ASSERT_TRUE(best.has_error());
  EXPECT_EQ(best.error().message, "the first");
}

TEST(RoundsTest, ASearchThatIsInterruptedFindsNothing) {
  RoundLimits limits = kThreeRounds;
  limits.interrupted = [] { return true; };
  const auto run = [](std::size_t) -> Result<MeasuredRun> { return measured(1, 1); };
  EXPECT_EQ(find_best_settings(2, run, limits).error().system_errno(), ECANCELED);
}

TEST(RoundsTest, NoRoundBeginsAfterTheBudgetButTheFirstOnes) {
  int runs = 0;
  const auto run = [&runs](std::size_t) -> Result<MeasuredRun> {
    ++runs;
    return measured(1, 1);
  };
  ASSERT_TRUE(
      find_best_settings(1, run, {.rounds_max = 9, .rounds_min = 2, .end = {}}).has_value());
  EXPECT_EQ(runs, 2);
}

TEST(RoundsTest, TheFirstFailureEndsThem) {
  int calls = 0;
  const auto run = [&calls](std::size_t at) -> Result<MeasuredRun> {
    ++calls;
    return at == 0 ? Result<MeasuredRun>(measured(1, 1)) : fault(Fault::kUnsupported, "no peer");
  };
  const auto sides = run_rounds(2, run, {.rounds_max = 10, .failure_ends = true});
  EXPECT_EQ(sides[1].refusal->message, "no peer");
  EXPECT_EQ(calls, 2);
}

TEST(RoundsTest, ARoundThatIsInterruptedDoesNotCount) {
  int calls = 0;
  const auto run = [&calls](std::size_t) -> Result<MeasuredRun> { return measured(++calls, 1); };
  const auto sides =
      run_rounds(2, run, {.rounds_max = 10, .interrupted = [&calls] { return calls >= 4; }});
  EXPECT_THAT(sides[0].bandwidths(), ElementsAre(1e9));
  EXPECT_THAT(sides[1].bandwidths(), ElementsAre(2e9));
}

}  // namespace
}  // namespace penstock::bench

#include "tests/sim/swap_simulation.h"

#include <gtest/gtest.h>

#include "tests/alloc/sanitizers.h"

namespace penstock {
namespace {

constexpr std::uint64_t kOperations = work(40'000);

class SwapSimulationTest : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SwapSimulationTest, LosesNothing) {
  SimulationOptions options;
  options.seed = GetParam();
  options.operations = kOperations;
  const SimulationReport report = SwapSimulation(options).run();
  EXPECT_EQ(report.violation, "");
  EXPECT_EQ(report.operations, options.operations);
  EXPECT_GT(report.contents_checked, options.operations / 5);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwapSimulationTest, testing::Range<std::uint64_t>(1, 21));

TEST(SwapSimulationReplay, TheSameSeedIsTheSameRun) {
  SimulationOptions options;
  options.operations = 5'000;
  const SimulationReport first = SwapSimulation(options).run();
  const SimulationReport second = SwapSimulation(options).run();
  EXPECT_EQ(first.outcomes, second.outcomes);
  EXPECT_EQ(first.faults, second.faults);
  EXPECT_EQ(first.bytes_checked, second.bytes_checked);
}

}  // namespace
}  // namespace penstock

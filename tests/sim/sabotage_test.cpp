// A check that cannot fail is no check: with one safeguard left out, the simulation must notice.

#include "alloc/sabotage.h"

#include <gtest/gtest.h>

#include "tests/sim/swap_simulation.h"

namespace penstock {
namespace {

struct LeftOut {
  const char* name;
  Sabotage what;
};

class SabotageTest : public testing::TestWithParam<LeftOut> {
 protected:
  void SetUp() override { sabotage = GetParam().what; }
  void TearDown() override { sabotage = Sabotage::kNone; }
};

TEST_P(SabotageTest, IsNoticedWithinTwentySeeds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.operations = 5'000;
    const SimulationReport report = SwapSimulation(options).run();
    if (!report.violation.empty()) {
      RecordProperty("noticed", report.violation);
      return;
    }
  }
  FAIL() << "twenty seeds passed without " << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(Safeguards, SabotageTest,
                         testing::Values(LeftOut{"ResultCheck", Sabotage::kResultCheck},
                                         LeftOut{"GenerationBump", Sabotage::kGenerationBump},
                                         LeftOut{"Checksum", Sabotage::kChecksum},
                                         LeftOut{"Sync", Sabotage::kSync}),
                         [](const auto& left_out) { return left_out.param.name; });

TEST(SabotageNone, NothingLeftOutNothingFound) {
  EXPECT_EQ(SwapSimulation(SimulationOptions{1, 5'000}).run().violation, "");
}

}  // namespace
}  // namespace penstock

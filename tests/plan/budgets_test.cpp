#include "swap/plan/budgets.h"

#include <gtest/gtest.h>

#include "alloc/bytes.h"
#include "tests/plan/plan_fixture.h"

namespace penstock {
namespace {

BudgetFacts facts(std::uint64_t available, std::uint32_t ranks = 1,
                  std::uint64_t slot = 12 * kMiB) {
  BudgetFacts facts;
  facts.mem_available_bytes = available;
  facts.ranks_on_node = ranks;
  facts.largest_class_slot_bytes = slot;
  return facts;
}

Config nvme(std::string_view offload_param, std::string_view penstock = "{}") {
  return parse_config(fmt::format(R"({{"zero_optimization": {{"stage": 3, "offload_param": {}}},
                                      "penstock": {}}})",
                                  offload_param, penstock),
                      "ds.json")
      .value();
}

TEST(BudgetsTest, TheUsersFileLetsDeepSpeedPin3Point36GB) {
  const Config config = load_config(test::data_path("seed-003.json")).value();
  const Budgets budgets = resolve_budgets(config.engine_config(), facts(24 * kGiB));
  EXPECT_EQ(budgets.memory_bytes, 3'355'443'200ULL);
  EXPECT_EQ(budgets.max_pinned_bytes, 64 * kMiB);
  EXPECT_EQ(budgets.ram_bytes, 3'355'443'200ULL - 64 * kMiB);
  EXPECT_FALSE(budgets.ram_given);
  EXPECT_FALSE(budgets.max_pinned_given);
}

TEST(BudgetsTest, ItIsCappedAtAQuarterOfWhatIsAvailablePerRank) {
  const Config config = load_config(test::data_path("seed-003.json")).value();
  const Budgets budgets = resolve_budgets(config.engine_config(), facts(8 * kGiB, 2));
  EXPECT_EQ(budgets.quarter_bytes, kGiB);
  EXPECT_EQ(budgets.memory_bytes, kGiB);
  EXPECT_EQ(budgets.ram_bytes, kGiB - 64 * kMiB);
}

TEST(BudgetsTest, MissingKeysCountAsDeepSpeedsDefaults) {
  const Budgets budgets =
      resolve_budgets(nvme(R"({"device": "nvme"})").engine_config(), facts(24 * kGiB));
  EXPECT_EQ(budgets.memory_bytes, 5ULL * 100'000'000 * 4);
}

TEST(BudgetsTest, WithoutParametersOnNvmeNothingIsKept) {
  for (const char* offload : {R"({"device": "cpu"})", "null"}) {
    const Budgets budgets = resolve_budgets(nvme(offload).engine_config(), facts(24 * kGiB));
    EXPECT_EQ(budgets.memory_bytes, 0U);
    EXPECT_EQ(budgets.ram_bytes, 0U);
    EXPECT_EQ(budgets.max_pinned_bytes, 64 * kMiB);
  }
}

TEST(BudgetsTest, PinnedHoldsTwoSlotsOfTheLargestClassWithinTheQuarter) {
  const Config config = nvme(R"({"device": "nvme"})");
  EXPECT_EQ(
      resolve_budgets(config.engine_config(), facts(24 * kGiB, 1, 112 * kMiB)).max_pinned_bytes,
      224 * kMiB);
  EXPECT_EQ(
      resolve_budgets(config.engine_config(), facts(400 * kMiB, 1, 112 * kMiB)).max_pinned_bytes,
      100 * kMiB);
  EXPECT_EQ(resolve_budgets(config.engine_config(), facts(24 * kGiB, 1, 0)).max_pinned_bytes,
            64 * kMiB);
}

TEST(BudgetsTest, GivenNumbersAreTakenAsTheyAre) {
  const Config config =
      nvme(R"({"device": "nvme"})", R"({"max_pinned_bytes": "1GiB", "ram_bytes": 0})");
  const Budgets budgets = resolve_budgets(config.engine_config(), facts(2 * kGiB));
  EXPECT_EQ(budgets.max_pinned_bytes, kGiB) << "even beyond the quarter";
  EXPECT_EQ(budgets.ram_bytes, 0U);
  EXPECT_TRUE(budgets.ram_given);
  EXPECT_TRUE(budgets.max_pinned_given);
}

TEST(BudgetsTest, NumbersThatMeanNoLimitDoNotWrap) {
  const Config config = nvme(R"({"device": "nvme", "buffer_count": 1000000000000,
                                 "buffer_size": 1000000000000})");
  EXPECT_EQ(resolve_budgets(config.engine_config(), facts(8 * kGiB)).memory_bytes, 2 * kGiB);
}

TEST(BudgetsTest, AMachineThatDoesNotTellHasNoCap) {
  const Config config = nvme(R"({"device": "nvme"})");
  EXPECT_EQ(resolve_budgets(config.engine_config(), facts(0)).memory_bytes, 2'000'000'000U);
}

TEST(BudgetsTest, ThisMachineTells) {
  EXPECT_GT(read_mem_available_bytes(), 0U);
}

}  // namespace
}  // namespace penstock

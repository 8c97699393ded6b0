#include <gtest/gtest.h>

#include "alloc/bytes.h"
#include "bindings/deepspeed/config.h"
#include "swap/plan/budgets.h"
#include "tests/training/training_fixture.h"

// What a user's file says to an engine.
namespace penstock {
namespace {

EngineConfig engine_config(const std::string& zero, const std::string& rest = {}) {
  return parse_config(fmt::format(R"({{"zero_optimization": {}{}}})", zero, rest), "ds.json")
      ->engine_config();
}

TEST(EngineConfigTest, TheUsersFileLetsDeepSpeedPin3Point36GB) {
  const EngineConfig config = load_config(test::data_path("seed-003.json")).value().engine_config();
  EXPECT_EQ(config.memory_bytes, 3'355'443'200ULL);
  BudgetFacts facts;
  facts.mem_available_bytes = 24 * kGiB;
  const Budgets budgets = resolve_budgets(config, facts);
  EXPECT_EQ(budgets.max_pinned_bytes, 64 * kMiB);
  EXPECT_EQ(budgets.ram_bytes, 3'355'443'200ULL - 64 * kMiB);
}

TEST(EngineConfigTest, MissingKeysCountAsDeepSpeedsDefaults) {
  const EngineConfig config = engine_config(R"({"stage": 3, "offload_param": {"device": "nvme"}})");
  EXPECT_EQ(config.memory_bytes, 5ULL * 100'000'000 * 4);
  EXPECT_EQ(config.outliers.above_bytes, 100'000'000ULL * 4);
  EXPECT_EQ(config.outliers.setting, "buffer_size");
}

TEST(EngineConfigTest, BuffersHoldElementsOfTheHeldType) {
  const EngineConfig config =
      engine_config(R"({"stage": 3, "offload_param": {"device": "nvme", "buffer_size": 1000}})",
                    R"(, "bf16": {"enabled": true})");
  EXPECT_EQ(config.memory_bytes, 5U * 1000 * 2);
  EXPECT_EQ(config.outliers.above_bytes, 1000U * 2);
}

TEST(EngineConfigTest, WithoutParametersOnNvmeThereAreNoBuffers) {
  for (const char* offload : {R"({"device": "cpu"})", "null"}) {
    const EngineConfig config =
        engine_config(fmt::format(R"({{"stage": 3, "offload_param": {}}})", offload));
    EXPECT_EQ(config.memory_bytes, 0U);
    EXPECT_EQ(config.outliers.above_bytes, 0U);
  }
  EXPECT_EQ(engine_config(R"({"stage": 2, "offload_param": {"device": "nvme"}})").memory_bytes, 0U);
}

TEST(EngineConfigTest, NumbersThatMeanNoLimitDoNotWrap) {
  const EngineConfig config = engine_config(
      R"({"stage": 3, "offload_param": {"device": "nvme", "buffer_count": 1000000000000,
                                        "buffer_size": 1000000000000}})");
  EXPECT_GE(config.memory_bytes, std::uint64_t{1} << 63);
}

TEST(EngineConfigTest, TheBlockPathsAndDirectStorageComeAlong) {
  const EngineConfig config = engine_config(
      R"({"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/o"}})",
      R"(, "aio": {"use_gds": true}, "penstock": {"ram_bytes": "1GiB", "mode": "durable"})");
  EXPECT_EQ(config.ram_bytes, kGiB);
  EXPECT_EQ(config.mode, StoreMode::kDurable);
  ASSERT_EQ(config.paths.size(), 1U);
  EXPECT_EQ(config.paths[0].path, "/o");
  EXPECT_EQ(config.direct_storage_setting, "aio.use_gds");
  EXPECT_TRUE(engine_config("{}").direct_storage_setting.empty());
}

}  // namespace
}  // namespace penstock

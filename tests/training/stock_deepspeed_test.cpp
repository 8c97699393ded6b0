#include "bindings/deepspeed/stock_deepspeed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bindings/deepspeed/rank_tensors.h"
#include "tests/training/training_fixture.h"
#include "tests/training/warning_matcher.h"

// Texts and orders of the errors are those of DeepSpeed 0.19.8, run with the same numbers.
namespace penstock {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TrainingSetup setup(std::string_view offload_param, std::string_view more = "") {
  return test::setup_with(
      test::data_inventory("qwen3-0.6b"),
      fmt::format(R"({{"bf16": {{"enabled": true}}, "zero_optimization": {{"stage": 3,
          "stage3_max_reuse_distance": 0, "offload_param": {} {}}}}})",
                  offload_param, more));
}

StockDeepSpeed predict(const TrainingSetup& setup) {
  return predict_stock_deepspeed(setup, rank_tensors(setup, moment_chunks(setup)));
}

StockDeepSpeed predict(std::string_view offload_param, std::string_view more = "") {
  return predict(setup(offload_param, more));
}

TEST(StockDeepSpeedTest, TheFirstParameterThatDoesNotFitIsTheError) {
  EXPECT_EQ(predict(R"({"device": "nvme", "nvme_path": "s", "buffer_size": 1e5})").error,
            "More elements 155582464 than buffer size 100000");
  EXPECT_EQ(predict(R"({"device": "nvme", "nvme_path": "s", "buffer_size": 0})").error,
            "More elements 155582464 than buffer size 0");
  EXPECT_EQ(predict(R"({"device": "nvme", "nvme_path": "s", "buffer_size": 155582464})").error,
            std::nullopt);
  EXPECT_EQ(predict(R"({"device": "nvme", "nvme_path": "s"})").error,
            "More elements 155582464 than buffer size 100000000")
      << "the default";
}

TEST(StockDeepSpeedTest, WithoutBuffersItDiesOnTheFirst) {
  EXPECT_EQ(predict(R"({"device": "nvme", "nvme_path": "s", "buffer_count": 0})").error,
            "No swap buffers to allocate for fp16 param 0 of numel = 155582464");
}

TEST(StockDeepSpeedTest, OneBufferIsEnoughToBuild) {
  EXPECT_EQ(
      predict(R"({"device": "nvme", "nvme_path": "s", "buffer_count": 1, "buffer_size": 2e8})")
          .error,
      std::nullopt);
}

TEST(StockDeepSpeedTest, PartitionsCountNotParameters) {
  TrainingSetup two = setup(R"({"device": "nvme", "nvme_path": "s", "buffer_size": 1e8})");
  two.world_size = 2;
  EXPECT_EQ(predict(two).error, std::nullopt) << "77791232 elements each";
  two.config.deepspeed.offload_param->buffer_size = 77'791'231;
  EXPECT_EQ(predict(two).error, "More elements 77791232 than buffer size 77791231");
}

TEST(StockDeepSpeedTest, PoolsArePaddedToItsAlignment) {
  EXPECT_EQ(
      predict(R"({"device": "nvme", "nvme_path": "s", "buffer_count": 5, "buffer_size": 2e8})")
          .pinned_bytes,
      5 * 400'000'000ULL);
  EXPECT_EQ(
      predict(R"({"device": "nvme", "nvme_path": "s", "buffer_count": 5, "buffer_size": 1e5})")
          .pinned_bytes,
      5 * 200'704ULL)
      << "100352 elements of 2 bytes";
}

TEST(StockDeepSpeedTest, SaysNothingWhereItSwapsNothing) {
  for (const char* offload : {"null", R"({"device": "cpu"})", R"({"device": "none"})"}) {
    const StockDeepSpeed stock = predict(offload);
    EXPECT_EQ(stock.error, std::nullopt);
    EXPECT_EQ(stock.pinned_bytes, std::nullopt);
    EXPECT_THAT(stock.warnings, IsEmpty());
  }
  TrainingSetup stage2 = setup(R"({"device": "nvme", "nvme_path": "s"})");
  stage2.stage = 2;
  EXPECT_EQ(predict(stage2).pinned_bytes, std::nullopt);
}

TEST(StockDeepSpeedTest, WarnsOfWhatDependsOnTheScript) {
  const char* offload =
      R"({"device": "nvme", "nvme_path": "s", "buffer_count": 5, "buffer_size": 2e8})";
  EXPECT_THAT(predict(offload).warnings, Contains(Says("Not enough buffers 5 for swapping 197")));
  TrainingSetup reuse = setup(offload);
  reuse.config.deepspeed.stage3_max_reuse_distance = 1'000'000'000;
  EXPECT_THAT(predict(reuse).warnings, Contains(Says("Not enough buffers 0 for swapping 1")));
  EXPECT_THAT(predict(offload).warnings, Contains(Says("max_in_cpu is 1000000000")));
  EXPECT_THAT(predict(R"({"device": "nvme"})").warnings,
              Contains(Says("offload_param.nvme_path is missing")));
}

TEST(StockDeepSpeedTest, WhatIsMovedToRamNeedsNoBuffers) {
  const auto with_limit = [](std::string_view limit) {
    TrainingSetup trained = setup(fmt::format(
        R"({{"device": "nvme", "nvme_path": "s", "buffer_size": 2e8, "max_in_cpu": {}}})", limit));
    trained.config.deepspeed.stage3_max_reuse_distance = 1'000'000'000;
    trained.trained_is_given = true;
    return predict(trained).warnings;
  };
  EXPECT_THAT(with_limit("0"), Contains(Says("Not enough buffers 5 for swapping 197")));
  EXPECT_THAT(with_limit("1e9"), Not(Contains(Says("Not enough buffers"))));
}

TEST(StockDeepSpeedTest, AMissingPathIsNoFitWhereTrainingRefusesIt) {
  const auto is_misfit = [](std::string_view param, std::string_view optimizer,
                            std::string_view more = "{}") {
    const TrainingSetup setup =
        test::setup_with(test::data_inventory("qwen3-0.6b"),
                         fmt::format(R"({{"zero_optimization": {{"stage": 3, "offload_param": {},
                         "offload_optimizer": {}}}, "penstock": {}}})",
                                     param, optimizer, more));
    const StockDeepSpeed stock = predict(setup);
    return std::ranges::any_of(stock.warnings, &PlanWarning::is_misfit);
  };
  constexpr std::string_view kHas = R"({"device": "nvme", "nvme_path": "s"})";
  constexpr std::string_view kLacks = R"({"device": "nvme"})";
  constexpr std::string_view kPaths = R"({"paths": ["/p"]})";
  EXPECT_FALSE(is_misfit(kHas, kHas));
  EXPECT_TRUE(is_misfit(kLacks, kHas));
  EXPECT_TRUE(is_misfit(kLacks, kHas, kPaths)) << "DeepSpeed asserts before penstock is asked";
  EXPECT_TRUE(is_misfit(kHas, kLacks));
  EXPECT_FALSE(is_misfit(kHas, kLacks, kPaths));
  EXPECT_FALSE(is_misfit(kHas, R"({"device": "nvme", "nvme_path": "auto"})"))
      << "accelerate may fill it in";
}

TEST(StockDeepSpeedTest, TheOptimizerHasAPoolOfItsOwn) {
  const StockDeepSpeed stock =
      predict(R"({"device": "none"})",
              R"(, "sub_group_size": 2e7, "offload_optimizer": {"device": "nvme", "nvme_path": "s",
                  "buffer_count": 5, "pipeline_read": true})");
  EXPECT_EQ(stock.optimizer_pinned_bytes, 5 * 155'582'464ULL * 4);
  EXPECT_THAT(stock.warnings, Contains(Says("buffer_count of 5 is below the 8")));
}

TEST(StockDeepSpeedTest, BelowStage3NvmeMeansCpu) {
  TrainingSetup stage2 = setup("null", R"(, "offload_optimizer": {"device": "nvme"})");
  stage2.stage = 2;
  EXPECT_THAT(predict(stage2).warnings,
              Contains(Says("at ZeRO stage 2 DeepSpeed keeps the optimizer in RAM")));
}

}  // namespace
}  // namespace penstock

#include "bindings/deepspeed/training_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/training/training_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;

Inventory three() {
  Inventory inventory;
  inventory.tensors.push_back({"large", DType::kBF16, {3001, 1000}, Role::kParam});
  inventory.tensors.push_back({"middle", DType::kBF16, {200'000}, Role::kParam});
  inventory.tensors.push_back({"small", DType::kBF16, {1000}, Role::kParam});
  return inventory;
}

constexpr const char* kNvme = R"({"zero_optimization": {"stage": 3,
    "offload_param": {"device": "nvme", "nvme_path": "/n"}}})";

TEST(TrainingSetupTest, TheConfigurationDecidesTheType) {
  EXPECT_EQ(rank_tensors(test::setup_with(three(), kNvme))[0].bytes, 3'001'000U * 4)
      << "fp32 where it names no 16-bit type, whatever the file says";
  EXPECT_EQ(rank_tensors(test::setup_without_config(three()))[0].bytes, 3'001'000U * 2);
}

TEST(TrainingSetupTest, IndicesKeepTheirOwnType) {
  Inventory inventory;
  inventory.tensors.push_back({"index", DType::kI64, {10}, Role::kParam});
  inventory.tensors.push_back({"inv_freq", DType::kF32, {10}, Role::kBuffer});
  const std::vector<PlanTensor> tensors = rank_tensors(test::setup_with(inventory, kNvme));
  EXPECT_EQ(tensors[0].bytes, 80U);
  EXPECT_EQ(tensors[1].place_unswapped, Place::kDevice);
}

TEST(TrainingSetupTest, WhatTheStageDividesIsRoundedUp) {
  TrainingSetup setup = test::setup_with(three(), kNvme);
  setup.world_size = 8;
  EXPECT_EQ(rank_tensors(setup)[0].bytes, 375'125U * 4);
  setup.stage = 2;
  EXPECT_EQ(rank_tensors(setup)[0].bytes, 3'001'000U * 4);
  EXPECT_FALSE(rank_tensors(setup)[0].swappable);
}

TEST(TrainingSetupTest, SmallTensorsStayWhereDeepSpeedHasThem) {
  const std::vector<PlanTensor> tensors = rank_tensors(test::setup_with(three(), kNvme));
  EXPECT_TRUE(tensors[0].swappable);
  EXPECT_FALSE(tensors[1].swappable) << "800,000 bytes";
  EXPECT_EQ(tensors[1].place_unswapped, Place::kRam) << "above the persistence threshold";
  EXPECT_EQ(tensors[2].place_unswapped, Place::kDevice) << "below it";
}

TEST(TrainingSetupTest, ALargerBlockRaisesTheLimit) {
  TrainingSetup setup = test::setup_with(three(), kNvme);
  setup.config.deepspeed.aio.block_size = 16 * kMiB;
  EXPECT_FALSE(rank_tensors(setup)[0].swappable);
}

TEST(TrainingSetupTest, OtherDevicesAreNotOurs) {
  const auto place = [](const char* offload) {
    const std::vector<PlanTensor> tensors = rank_tensors(test::setup_with(
        three(),
        fmt::format(R"({{"zero_optimization": {{"stage": 3, "offload_param": {}}}}})", offload)));
    EXPECT_FALSE(tensors[0].swappable);
    return tensors[0].place_unswapped;
  };
  EXPECT_EQ(place(R"({"device": "cpu"})"), Place::kRam);
  EXPECT_EQ(place(R"({"device": "none"})"), Place::kDevice);
  EXPECT_EQ(place("null"), Place::kDevice);
}

TEST(TrainingSetupTest, OptimizerStatesOnNvmeAreTensorsToo) {
  const TrainingSetup setup =
      test::setup_with(three(), R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
          "sub_group_size": 1000000,
          "offload_optimizer": {"device": "nvme", "nvme_path": "/n"}}})");
  const std::vector<PlanTensor> tensors = rank_tensors(setup);
  ASSERT_EQ(tensors.size(), 3U + 6U) << "two sub-groups of master, exp_avg and exp_avg_sq";
  EXPECT_EQ(tensors[3].bytes, 3'001'000U * 4);
  EXPECT_TRUE(tensors[3].swappable);
  EXPECT_EQ(tensors[3].reads_per_step, 1U);
  EXPECT_EQ(tensors[3].writes_per_step, 1U);
  EXPECT_EQ(tensors[4].name, "sub-group 1 master") << "masters first, as training makes them";
  EXPECT_FALSE(tensors[4].swappable) << "201,000 elements are below 1 MiB";
}

TEST(TrainingSetupTest, StatesThatTheInventoryListsAreNotMadeUp) {
  Inventory inventory = three();
  inventory.tensors.push_back({"m", DType::kF32, {3'202'000}, Role::kMaster});
  const TrainingSetup setup = test::setup_with(inventory, R"({"zero_optimization": {"stage": 3,
          "offload_optimizer": {"device": "nvme", "nvme_path": "/n"}}})");
  EXPECT_EQ(rank_tensors(setup).size(), 4U + 2U) << "moments only";
}

TEST(TrainingSetupTest, FrozenParametersAreNeverWritten) {
  TrainingSetup setup = test::setup_with(three(), kNvme);
  EXPECT_EQ(rank_tensors(setup)[0].writes_per_step, 1U);
  setup.optimizer = OptimizerKind::kNone;
  EXPECT_EQ(rank_tensors(setup)[0].writes_per_step, 0U);
}

TEST(OptimizerKindTest, IsFoundByDeepSpeedsType) {
  EXPECT_EQ(optimizer_of_type(""), OptimizerKind::kAdamW);
  EXPECT_EQ(optimizer_of_type("AdamW"), OptimizerKind::kAdamW);
  EXPECT_EQ(optimizer_of_type("Adam8bit"), OptimizerKind::kAdamW8Bit);
  EXPECT_EQ(optimizer_of_type("AdamW4Bit"), OptimizerKind::kAdamW4Bit);
  EXPECT_EQ(parse_optimizer("adamw8bit").value(), OptimizerKind::kAdamW8Bit);
  EXPECT_THAT(parse_optimizer("adam").error().message, HasSubstr("did you mean \"adamw\"?"));
}

}  // namespace
}  // namespace penstock

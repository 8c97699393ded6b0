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
  ASSERT_EQ(tensors.size(), 3U + 3 * 3U + 3U)
      << "master, exp_avg and exp_avg_sq of two sub-groups, those of the first in three chunks";
  EXPECT_EQ(tensors[3].bytes, 4U << 20U);
  EXPECT_EQ(tensors[4].name, "sub-group 0 master/1");
  EXPECT_EQ(tensors[5].bytes, 3'001'000U * 4 - (8U << 20U));
  for (std::size_t i = 3; i < 6; ++i) {
    EXPECT_TRUE(tensors[i].swappable) << "the last chunk, too, however small it is";
    EXPECT_EQ(tensors[i].reads_per_step, 1U);
    EXPECT_EQ(tensors[i].writes_per_step, 1U);
  }
  EXPECT_EQ(tensors[6].name, "sub-group 1 master") << "masters first, as training makes them";
  EXPECT_FALSE(tensors[6].swappable) << "201,000 elements are below 1 MiB";
}

std::size_t states_under(const char* keys) {
  return rank_tensors(
             test::setup_with(three(), fmt::format(R"({{{} "zero_optimization": {{"stage": 3,
          "offload_optimizer": {{"device": "nvme", "nvme_path": "/n"}}}}}})",
                                                   keys)))
             .size() -
         3;
}

TEST(TrainingSetupTest, OnlyCpuAdamIsSteppedInChunks) {
  constexpr std::size_t kWhole = 3;
  constexpr std::size_t kChunks = 3 * 4;
  EXPECT_EQ(states_under(""), kChunks) << "DeepSpeed takes no other from a script";
  EXPECT_EQ(states_under(R"("zero_force_ds_cpu_optimizer": false,)"), kWhole);
  EXPECT_EQ(states_under(R"("optimizer": {"type": "adam"},)"), kChunks);
  EXPECT_EQ(states_under(R"("optimizer": {"type": "AdamW", "params": {"torch_adam": true}},)"),
            kWhole);
  EXPECT_EQ(states_under(R"("optimizer": {"type": "Lion"},)"), kWhole);
}

TEST(TrainingSetupTest, StatesThatTheInventoryListsAreNotMadeUp) {
  Inventory inventory = three();
  inventory.tensors.push_back({"m", DType::kF32, {3'202'000}, Role::kMaster});
  const TrainingSetup setup = test::setup_with(inventory, R"({"zero_optimization": {"stage": 3,
          "offload_optimizer": {"device": "nvme", "nvme_path": "/n"}}})");
  EXPECT_EQ(rank_tensors(setup).size(), 4U + 2 * 4U) << "moments only, in chunks";
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

#include "bindings/deepspeed/training_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bindings/deepspeed/moment_chunks.h"
#include "tests/training/training_fixture.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  EXPECT_EQ(test::rank_tensors(test::setup_with(three(), kNvme))[0].bytes, 3'001'000U * 4)
      << "fp32 where it names no 16-bit type, whatever the file says";
  EXPECT_EQ(test::rank_tensors(test::setup_without_config(three()))[0].bytes, 3'001'000U * 2);
}

TEST(TrainingSetupTest, WithoutAConfigurationTheGivenTypeCounts) {
  TrainingSetup setup = test::setup_without_config(three());
  setup.given_dtype = DType::kF32;
  EXPECT_EQ(test::rank_tensors(setup)[0].bytes, 3'001'000U * 4);
  setup = test::setup_with(three(), kNvme);
  setup.given_dtype = DType::kBF16;
  EXPECT_EQ(test::rank_tensors(setup)[0].bytes, 3'001'000U * 4) << "the configuration's";
}

TEST(TrainingSetupTest, ATypeThatTheUserGivesIsKept) {
  TrainingSetup setup = test::setup_with(three(), R"({"bf16": {"enabled": true},
      "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/n"}}})");
  setup.typed_tensors = {"large", "middle"};
  setup.inventory.tensors[0].dtype = setup.inventory.tensors[1].dtype = DType::kF32;
  setup.inventory.tensors[1].shape = {400'000};
  const std::vector<PlanTensor> tensors = test::rank_tensors(setup);
  EXPECT_EQ(tensors[0].bytes, 3'001'000U * 4);
  EXPECT_EQ(tensors[1].bytes, 400'000U * 4);
  EXPECT_FALSE(tensors[1].swappable) << "DeepSpeed reckons with 2 bytes an element";
}

TEST(TrainingSetupTest, IndicesKeepTheirOwnType) {
  Inventory inventory;
  inventory.tensors.push_back({"index", DType::kI64, {10}, Role::kParam});
  inventory.tensors.push_back({"inv_freq", DType::kF32, {10}, Role::kBuffer});
  const std::vector<PlanTensor> tensors = test::rank_tensors(test::setup_with(inventory, kNvme));
  EXPECT_EQ(tensors[0].bytes, 80U);
  EXPECT_EQ(tensors[1].place_unswapped, Place::kDevice);
}

TEST(TrainingSetupTest, ElementsOfAFewBitsLieSideBySide) {
  Inventory inventory;
  inventory.tensors.push_back({"four", DType::kF4, {3 << 20}, Role::kParam});
  inventory.tensors.push_back({"six", DType::kF6E2M3, {4}, Role::kParam});
  inventory.tensors.push_back({"small", DType::kF4, {3 << 19}, Role::kParam});
  TrainingSetup setup = test::setup_with(inventory, kNvme);
  std::vector<PlanTensor> tensors = test::rank_tensors(setup);
  EXPECT_EQ(tensors[0].bytes, 3U << 19U);
  EXPECT_EQ(tensors[1].bytes, 3U);
  EXPECT_FALSE(tensors[2].swappable) << "768 KiB";
  setup.world_size = 3;
  EXPECT_EQ(test::rank_tensors(setup)[1].bytes, 2U) << "two elements end within the second byte";
}

TEST(TrainingSetupTest, WhatTheStageDividesIsRoundedUp) {
  TrainingSetup setup = test::setup_with(three(), kNvme);
  setup.world_size = 8;
  EXPECT_EQ(test::rank_tensors(setup)[0].bytes, 375'125U * 4);
  setup.stage = 2;
  EXPECT_EQ(test::rank_tensors(setup)[0].bytes, 3'001'000U * 4);
  EXPECT_FALSE(test::rank_tensors(setup)[0].swappable);
}

TEST(TrainingSetupTest, SmallTensorsStayWhereDeepSpeedHasThem) {
  const std::vector<PlanTensor> tensors = test::rank_tensors(test::setup_with(three(), kNvme));
  EXPECT_TRUE(tensors[0].swappable);
  EXPECT_FALSE(tensors[1].swappable) << "800,000 bytes";
  EXPECT_EQ(tensors[1].place_unswapped, Place::kRam) << "above the persistence threshold";
  EXPECT_EQ(tensors[2].place_unswapped, Place::kDevice) << "below it";
}

TEST(TrainingSetupTest, ALargerBlockRaisesTheLimit) {
  TrainingSetup setup = test::setup_with(three(), kNvme);
  setup.config.deepspeed.aio.block_size = 16 * kMiB;
  EXPECT_FALSE(test::rank_tensors(setup)[0].swappable);
}

TEST(TrainingSetupTest, OtherDevicesAreNotOurs) {
  const auto place = [](const char* offload) {
    const std::vector<PlanTensor> tensors = test::rank_tensors(test::setup_with(
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
  const std::vector<PlanTensor> tensors = test::rank_tensors(setup);
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
  return test::rank_tensors(
             test::setup_with(three(), fmt::format(R"({{{} "zero_optimization": {{"stage": 3,
          "offload_optimizer": {{"device": "nvme", "nvme_path": "/n"}}}}}})",
                                                   keys)))
             .size() -
         3;
}

TEST(TrainingSetupTest, OptimizersThatWorkElementByElementAreSteppedInChunks) {
  constexpr std::size_t kWhole = 3;
  constexpr std::size_t kChunks = 3 * 4;
  EXPECT_EQ(states_under(""), kChunks) << "DeepSpeed takes no other from a script";
  EXPECT_EQ(states_under(R"("zero_force_ds_cpu_optimizer": false,)"), kChunks);
  EXPECT_EQ(states_under(R"("optimizer": {"type": "adam"},)"), kChunks);
  EXPECT_EQ(states_under(R"("optimizer": {"type": "AdamW", "params": {"torch_adam": true}},)"),
            kChunks);
  EXPECT_EQ(states_under(R"("optimizer": {"type": "Lion"},)"), kChunks);
  EXPECT_EQ(states_under(R"("optimizer": {"type": "Muon"},)"), kWhole);
}

TEST(TrainingSetupTest, TheStatesAreThoseOfTheOptimizer) {
  constexpr std::size_t kState = 4;  // chunks
  EXPECT_EQ(states_under(R"("optimizer": {"type": "SGD"},)"), kState) << "a master alone";
  EXPECT_EQ(states_under(R"("optimizer": {"type": "SGD", "params": {"momentum": 0.9}},)"),
            2 * kState);
  EXPECT_EQ(states_under(R"("optimizer": {"type": "Adagrad"},)"), 2 * kState);
  EXPECT_EQ(states_under(R"("optimizer": {"type": "ASGD"},)"), 2) << "whole";
  EXPECT_EQ(states_under(R"("optimizer": {"type": "Adafactor"},)"), 2) << "whole";
  EXPECT_EQ(states_under(R"("optimizer": {"type": "RMSprop", "params": {"momentum": 0.9,
                             "centered": true}},)"),
            4 * kState);
  EXPECT_EQ(states_under(R"("optimizer": {"type": "Adam", "params": {"amsgrad": true}},)"),
            3 * kState)
      << "DeepSpeed's own has no such state";
  EXPECT_EQ(states_under(R"("optimizer": {"type": "Adam", "params": {"amsgrad": true,
                             "torch_adam": true}},)"),
            4 * kState);
  EXPECT_EQ(states_under(R"("optimizer": {"type": "Adam", "params": {"amsgrad": "true",
                             "torch_adam": 1}},)"),
            4 * kState)
      << "Python takes both for true";
}

// The states that a step under Lion leaves where they are.
std::vector<std::string> idle_states(const char* params) {
  const TrainingSetup setup =
      test::setup_with(three(), fmt::format(R"({{"optimizer": {{"type": "Lion", "params": {}}},
          "zero_optimization": {{"stage": 3, "sub_group_size": 1000000,
              "offload_optimizer": {{"device": "nvme", "nvme_path": "/n"}}}}}})",
                                            params));
  std::vector<std::string> idle;
  for (const PlanTensor& tensor : test::rank_tensors(setup)) {
    EXPECT_EQ(tensor.reads_per_step == 0, tensor.writes_per_step == 0) << tensor.name;
    if (tensor.name.starts_with("sub-group 0") && tensor.reads_per_step == 0) {
      idle.push_back(tensor.name);
    }
  }
  return idle;
}

TEST(TrainingSetupTest, LionNeverUsesItsSecondMoment) {
  EXPECT_THAT(idle_states("{}"), ElementsAre("sub-group 0 exp_avg_sq/0", "sub-group 0 exp_avg_sq/1",
                                             "sub-group 0 exp_avg_sq/2"));
  EXPECT_THAT(idle_states(R"({"fp32_optimizer_states": false})"), IsEmpty())
      << "a whole sub-group moves with all of its states";
}

TrainingSetup narrow_setup(const char* block, const char* keys = "") {
  return test::setup_with(three(), fmt::format(R"({{{} "penstock": {{{}}},
      "zero_optimization": {{"stage": 3, "sub_group_size": 1000000,
          "offload_optimizer": {{"device": "nvme", "nvme_path": "/n"}}}}}})",
                                               keys, block));
}

std::uint64_t bytes_named(const std::vector<PlanTensor>& tensors, std::string_view prefix) {
  std::uint64_t bytes = 0;
  for (const PlanTensor& tensor : tensors) {
    bytes += tensor.name.starts_with(prefix) ? tensor.bytes : 0;
  }
  return bytes;
}

TEST(TrainingSetupTest, NarrowMomentsHaveTheBytesOfTheirBlocks) {
  const std::uint64_t whole =
      bytes_named(test::rank_tensors(narrow_setup("")), "sub-group 0 exp_avg");
  EXPECT_EQ(whole, 2 * 3'001'000U * 4);
  const TrainingSetup setup = narrow_setup(R"("optimizer_states": "8bit")");
  const std::vector<PlanTensor> tensors = test::rank_tensors(setup);
  EXPECT_EQ(bytes_named(tensors, "sub-group 0 master"), 3'001'000U * 4) << "masters stay fp32";
  const std::uint64_t blocks = 4096 + 4096 + (903'848 + 255) / 256;  // of three chunks
  EXPECT_EQ(bytes_named(tensors, "sub-group 0 exp_avg"), 2 * (3'001'000U + blocks * 4));
  EXPECT_EQ(swapped_moment_bytes(setup, StateFormat::k8Bit),
            bytes_named(tensors, "sub-group 0 exp_avg"));
  EXPECT_EQ(swapped_moment_bytes(setup, StateFormat::kF32), whole);
  EXPECT_EQ(bytes_named(tensors, "sub-group 1 exp_avg"), 2 * 201'000U * 4)
      << "too small to be swapped: as without penstock";
}

TEST(TrainingSetupTest, TheOptimizersNameChoosesNarrowMomentsToo) {
  TrainingSetup setup = narrow_setup("");
  setup.optimizer = OptimizerKind::kAdamW4Bit;
  EXPECT_EQ(test::rank_tensors(setup).back().bytes, 201'000U * 4);
  EXPECT_EQ(bytes_named(test::rank_tensors(setup), "sub-group 0 exp_avg_sq"),
            bytes_named(test::rank_tensors(narrow_setup(R"("optimizer_states": "4bit")")),
                        "sub-group 0 exp_avg_sq"));
}

std::vector<std::string> codes(const TrainingSetup& setup) {
  std::vector<std::string> found;
  for (const PlanWarning& warning : warn_about_states(setup)) {
    found.push_back(warning.code + (warning.is_misfit ? "!" : ""));
  }
  return found;
}

TEST(TrainingSetupTest, WarnsOfStatesThatTrainingRefusesOrIgnores) {
  EXPECT_THAT(codes(narrow_setup(R"("optimizer_states": "8bit")")), IsEmpty());
  EXPECT_THAT(
      codes(narrow_setup(R"("optimizer_states": "8bit")", R"("optimizer": {"type": "Lion"},)")),
      ElementsAre("optimizer-states!"));
  EXPECT_THAT(codes(narrow_setup(R"("optimizer_states": "8bit", "fp32_states": ["*", "x*"])")),
              ElementsAre("idle-pattern"));
  EXPECT_THAT(codes(test::setup_with(three(), R"({"penstock": {"optimizer_states": "4bit"},
                                                  "zero_optimization": {"stage": 3}})")),
              ElementsAre("idle-states"));
}

// Bytes of the master and of exp_avg of the first sub-group.
std::pair<std::uint64_t, std::uint64_t> bytes_under(const char* keys) {
  const std::vector<PlanTensor> tensors = test::rank_tensors(narrow_setup("", keys));
  const auto is_chunk = [](const PlanTensor& tensor) {
    return tensor.name.starts_with("sub-group") && tensor.name.find('/') != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if(tensors, is_chunk), 0) << keys;
  return {bytes_named(tensors, "sub-group 0 master"), bytes_named(tensors, "sub-group 0 exp_avg_")};
}

TEST(TrainingSetupTest, MastersAndStatesOf16BitsAreSteppedWhole) {
  using testing::Pair;
  constexpr std::uint64_t kElements = 3'001'000;
  EXPECT_THAT(bytes_under(R"("bf16": {"bf16_master_weights_and_grads": true},)"),
              Pair(kElements * 2, kElements * 4));
  EXPECT_THAT(bytes_under(R"("bf16": {"bf16_master_weights_and_grads": true,
                                      "bf16_optimizer_states": true},)"),
              Pair(kElements * 2, kElements * 2));
  EXPECT_THAT(bytes_under(R"("fp16": {"fp16_master_weights_and_grads": true}, "optimizer":
                            {"type": "AdamW", "params": {"fp32_optimizer_states": false}},)"),
              Pair(kElements * 2, kElements * 2));
  EXPECT_THAT(
      bytes_under(R"("optimizer": {"type": "AdamW", "params": {"fp32_optimizer_states": false}},)"),
      Pair(kElements * 4, kElements * 4))
      << "the masters' type";
  EXPECT_THAT(bytes_under(R"("bf16": {"bf16_master_weights_and_grads": true}, "optimizer":
                            {"type": "AdamW", "params": {"fp32_optimizer_states": 0}},)"),
              Pair(kElements * 2, kElements * 2));
}

TEST(TrainingSetupTest, TorchsAdamKnowsNoTypeOfItsStates) {
  EXPECT_EQ(states_under(R"("optimizer": {"type": "AdamW", "params": {"torch_adam": true,
                             "fp32_optimizer_states": false}},)"),
            3U * 4)
      << "in chunks";
}

TEST(TrainingSetupTest, SixteenBitMastersHaveNoNarrowStates) {
  EXPECT_THAT(codes(narrow_setup(R"("optimizer_states": "8bit")",
                                 R"("bf16": {"bf16_master_weights_and_grads": true},)")),
              ElementsAre("optimizer-states!"));
}

TEST(TrainingSetupTest, FlagsOfTheOptimizerMayHaveEachFormThatIsTrueInTraining) {
  for (const char* keys :
       {R"("bf16": {"bf16_master_weights_and_grads": 1},)",
        R"("bf16": {"bf16_master_weights_and_grads": "true"},)",
        R"("optimizer": {"type": "Adam", "params": {"torch_adam": 1}},)",
        R"("optimizer": {"type": "Adam", "params": {"torch_adam": "false"}},)"}) {
    EXPECT_THAT(codes(narrow_setup(R"("optimizer_states": "8bit")", keys)),
                ElementsAre("optimizer-states!"))
        << keys;
  }
  EXPECT_THAT(
      codes(narrow_setup(R"("optimizer_states": "8bit")",
                         R"("optimizer": {"type": "Adam", "params": {"torch_adam": ""}},)")),
      IsEmpty());
  EXPECT_THAT(
      codes(narrow_setup(R"("optimizer_states": "8bit")", R"("zero_force_ds_cpu_optimizer": 0,)")),
      ElementsAre("optimizer-states!"));
}

TEST(TrainingSetupTest, StatesThatTheInventoryListsAreNotMadeUp) {
  Inventory inventory = three();
  inventory.tensors.push_back({"m", DType::kF32, {3'202'000}, Role::kMaster});
  const TrainingSetup setup = test::setup_with(inventory, R"({"zero_optimization": {"stage": 3,
          "offload_optimizer": {"device": "nvme", "nvme_path": "/n"}}})");
  EXPECT_EQ(test::rank_tensors(setup).size(), 4U + 2 * 4U) << "moments only, in chunks";
}

TEST(TrainingSetupTest, TrainerStepsBiasesAndNormsInAGroupOfTheirOwn) {
  Inventory inventory;
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, std::vector<std::uint64_t>>>{{"norm.weight", {1000}},
                                                                       {"a", {1000, 1000}},
                                                                       {"experts.bias", {8, 1000}},
                                                                       {"b", {1000, 1000}}}) {
    inventory.tensors.push_back({name, DType::kBF16, shape, Role::kParam});
  }
  const std::string file = R"({"zero_optimization": {"stage": 3, "sub_group_size": 1e9,
      "offload_param": {"device": "nvme", "nvme_path": "/n"},
      "offload_optimizer": {"device": "nvme", "nvme_path": "/n"}}, "gradient_accumulation_steps": %})";
  const auto setup_of = [&](const std::string& passes) {
    std::string text = file;
    return test::setup_with(inventory, text.replace(text.find('%'), 1, passes).c_str());
  };
  EXPECT_THAT(setup_of("1").trained(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(setup_of("1").sub_groups().size(), 1U);
  const TrainingSetup trainer = setup_of("\"auto\"");
  EXPECT_THAT(trainer.trained(), ElementsAre(1, 3, 0, 2));
  ASSERT_EQ(trainer.sub_groups().size(), 2U);
  EXPECT_EQ(trainer.sub_groups()[0].elements, 2'000'000U);
  EXPECT_EQ(trainer.sub_groups()[1].first, 2U);
  EXPECT_EQ(trainer.sub_groups()[1].end, 4U);
  EXPECT_EQ(trainer.sub_groups()[1].elements, 9000U);
}

TEST(TrainingSetupTest, FrozenParametersAreNeverWritten) {
  TrainingSetup setup = test::setup_with(three(), kNvme);
  EXPECT_EQ(test::rank_tensors(setup)[0].writes_per_step, 1U);
  setup.optimizer = OptimizerKind::kNone;
  EXPECT_EQ(test::rank_tensors(setup)[0].writes_per_step, 0U);
}

TEST(TrainingSetupTest, EmptyParametersAreInNoSubGroup) {
  Inventory inventory = three();
  inventory.tensors.insert(inventory.tensors.begin(), {"empty", DType::kBF16, {0}, Role::kParam});
  TrainingSetup setup = test::setup_with(inventory, kNvme);
  setup.config.deepspeed.sub_group_size = 0;
  const std::vector<SubGroup> groups = setup.sub_groups();
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].elements, 3'001'000U);
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

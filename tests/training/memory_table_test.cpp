#include "bindings/deepspeed/memory_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "alloc/bytes.h"
#include "tests/training/training_fixture.h"

// The tables of docs/MEMORY_TABLES.md.
namespace penstock {
namespace {

std::uint64_t bytes_of(const SwapPlan& plan, Component component) {
  std::uint64_t bytes = 0;
  for (const MemoryRow& row : plan.memory) {
    bytes += row.component == component ? row.bytes_per_rank : 0;
  }
  return bytes;
}

std::uint64_t bytes_of(const SwapPlan& plan, Component component, Storage storage) {
  for (const MemoryRow& row : plan.memory) {
    if (row.component == component && row.storage == storage) {
      return row.bytes_per_rank;
    }
  }
  return 0;
}

SwapPlan plan_of(const char* model, std::uint32_t stage, std::uint32_t world_size,
                 OptimizerKind optimizer) {
  TrainingSetup setup = test::setup_without_config(test::data_inventory(model));
  setup.stage = stage;
  setup.world_size = world_size;
  setup.ranks_on_node = world_size;
  setup.optimizer = optimizer;
  return make_swap_plan(setup, test::baseline_machine());
}

// Elements of a rank: each tensor is divided by itself, so that up to a tensor's rest is padding.
constexpr std::uint64_t kElements30B = 30'532'122'624;

TEST(MemoryTableTest, ThirtyBillionParametersOnEightRanks) {
  const SwapPlan stage2 = plan_of("qwen3-30b-a3b", 2, 8, OptimizerKind::kAdamW);
  EXPECT_EQ(bytes_of(stage2, Component::kParameters, Storage::kDevice), kElements30B * 2);
  EXPECT_EQ(bytes_of(stage2, Component::kGradients), kElements30B / 8 * 2);
  EXPECT_EQ(bytes_of(stage2, Component::kMaster), kElements30B / 8 * 4);
  EXPECT_EQ(bytes_of(stage2, Component::kMoments), kElements30B) << "8 bytes / 8 ranks";

  const SwapPlan stage3 = plan_of("qwen3-30b-a3b", 3, 8, OptimizerKind::kAdamW);
  EXPECT_EQ(bytes_of(stage3, Component::kParameters), kElements30B / 8 * 2);
  EXPECT_EQ(bytes_of(stage3, Component::kGradients), bytes_of(stage2, Component::kGradients));
  EXPECT_EQ(bytes_of(stage3, Component::kMoments), bytes_of(stage2, Component::kMoments))
      << "the optimizer is divided in both stages";
}

TEST(MemoryTableTest, QuantisedMoments) {
  EXPECT_EQ(
      bytes_of(plan_of("qwen3-30b-a3b", 3, 8, OptimizerKind::kAdamW8Bit), Component::kMoments),
      kElements30B / 8 * 2);
  EXPECT_EQ(
      bytes_of(plan_of("qwen3-30b-a3b", 3, 8, OptimizerKind::kAdamW4Bit), Component::kMoments),
      kElements30B / 8);
  const SwapPlan none = plan_of("qwen3-30b-a3b", 3, 8, OptimizerKind::kNone);
  EXPECT_EQ(bytes_of(none, Component::kMoments), 0U);
  EXPECT_EQ(bytes_of(none, Component::kMaster), 0U);
  EXPECT_EQ(bytes_of(none, Component::kGradients), 0U);
}

TEST(MemoryTableTest, TwoRanks) {
  const SwapPlan plan = plan_of("qwen3-30b-a3b", 3, 2, OptimizerKind::kAdamW4Bit);
  EXPECT_EQ(bytes_of(plan, Component::kParameters), kElements30B);
  EXPECT_EQ(bytes_of(plan, Component::kGradients), kElements30B);
  EXPECT_EQ(bytes_of(plan, Component::kMaster), kElements30B * 2);
  EXPECT_EQ(bytes_of(plan, Component::kMoments), kElements30B / 2);
}

TEST(MemoryTableTest, SevenBillionInFp32AreTheirOwnMasters) {
  Inventory inventory;
  inventory.tensors.push_back({"w", DType::kF32, {1'000'000, 7'000}, Role::kParam});
  TrainingSetup setup = test::setup_without_config(inventory);
  const SwapPlan plan = make_swap_plan(setup, test::baseline_machine());
  EXPECT_EQ(bytes_of(plan, Component::kParameters), 28'000'000'000U);
  EXPECT_EQ(bytes_of(plan, Component::kGradients), 28'000'000'000U);
  EXPECT_EQ(bytes_of(plan, Component::kMoments), 56'000'000'000U);
  EXPECT_EQ(bytes_of(plan, Component::kMaster), 0U);
}

TEST(MemoryTableTest, UnevenTensorsArePaddedOneByOne) {
  Inventory inventory;
  inventory.tensors.push_back({"a", DType::kBF16, {5}, Role::kParam});
  inventory.tensors.push_back({"b", DType::kBF16, {9}, Role::kParam});
  TrainingSetup setup = test::setup_without_config(inventory);
  setup.world_size = 4;
  const SwapPlan plan = make_swap_plan(setup, test::baseline_machine());
  EXPECT_EQ(bytes_of(plan, Component::kParameters), (2 + 3) * 2U);
  EXPECT_EQ(bytes_of(plan, Component::kMoments), (2 + 3) * 8U);
}

TEST(MemoryTableTest, OffloadedOptimizersAreWhereTheConfigurationPutsThem) {
  const SwapPlan seed =
      make_swap_plan(test::setup_with(test::data_inventory("qwen3-0.6b"),
                                      load_config(test::data_path("seed-003.json")).value()),
                     test::baseline_machine());
  EXPECT_EQ(bytes_of(seed, Component::kMoments, Storage::kRam), 596'049'920ULL * 8);
  EXPECT_EQ(bytes_of(seed, Component::kMaster, Storage::kRam), 596'049'920ULL * 4);
  EXPECT_EQ(bytes_of(seed, Component::kGradients, Storage::kRam), 596'049'920ULL * (4 + 4))
      << "the optimizer's and the backward's";

  Config config = load_config(test::data_path("full-finetune.json")).value();
  config.penstock.ram_bytes = 0;
  const SwapPlan full = make_swap_plan(test::setup_with(test::data_inventory("qwen3-0.6b"), config),
                                       test::baseline_machine());
  EXPECT_EQ(bytes_of(full, Component::kMoments), 596'049'920ULL * 8);
  EXPECT_EQ(bytes_of(full, Component::kMaster), 596'049'920ULL * 4);
  EXPECT_EQ(bytes_of(full, Component::kMoments, Storage::kRam), 3072U * 8)
      << "the last sub-group is below 1 MiB";
  EXPECT_EQ(bytes_of(full, Component::kBuffers, Storage::kPinned), full.placement.pinned_bytes);
}

// A rank's gradients with the optimizer in RAM, as measured in DeepSpeed 0.19.8 with eight layers
// of 1024 x 1024, MiB.
struct MeasuredGradients {
  const char* settings;
  std::uint32_t world_size;
  std::uint64_t ram;
  std::uint64_t device;
};

TEST(MemoryTableTest, GradientsOfAnOptimizerInRam) {
  Inventory inventory;
  for (int i = 0; i < 8; ++i) {
    inventory.tensors.push_back({fmt::format("{}", i), DType::kF32, {1024, 1024}, Role::kParam});
  }
  constexpr std::array<MeasuredGradients, 10> kMeasured{{
      {R"("bf16": {"enabled": true}, "zero_optimization": {"stage": 3)", 1, 32 + 16, 0},
      {R"("zero_optimization": {"stage": 3)", 1, 32 + 32, 0},
      {R"("bf16": {"enabled": true}, "zero_optimization": {"stage": 2)", 1, 32, 0},
      {R"("zero_optimization": {"stage": 2)", 1, 32, 0},
      {R"("bf16": {"enabled": true}, "zero_optimization": {"stage": 1)", 1, 32, 0},
      {R"("zero_optimization": {"stage": 1)", 1, 32, 0},
      {R"("bf16": {"enabled": true}, "gradient_accumulation_steps": 2,
          "zero_optimization": {"stage": 3)",
       1, 32 + 16, 0},
      {R"("bf16": {"enabled": true}, "gradient_accumulation_steps": 2,
          "zero_optimization": {"stage": 2)",
       1, 32 + 16, 0},
      {R"("bf16": {"enabled": true}, "gradient_accumulation_steps": 2,
          "zero_optimization": {"stage": 1)",
       1, 32, 16},
      {R"("bf16": {"enabled": true}, "gradient_accumulation_steps": 2,
          "zero_optimization": {"stage": 1)",
       2, 16, 16},
  }};
  for (const MeasuredGradients& measured : kMeasured) {
    const std::string config =
        fmt::format("{{{}, \"offload_optimizer\": {{\"device\": \"cpu\"}}}}}}", measured.settings);
    TrainingSetup setup = test::setup_with(inventory, config);
    setup.world_size = measured.world_size;
    const SwapPlan plan = make_swap_plan(setup, test::baseline_machine());
    EXPECT_EQ(bytes_of(plan, Component::kGradients, Storage::kRam), measured.ram << 20U) << config;
    EXPECT_EQ(bytes_of(plan, Component::kGradients, Storage::kDevice), measured.device << 20U)
        << config;
  }
}

TEST(MemoryTableTest, BuffersOfAnOptimizerInRamBelowStage3) {
  Inventory inventory;
  for (int i = 0; i < 8; ++i) {
    inventory.tensors.push_back({fmt::format("{}", i), DType::kF32, {1024, 1024}, Role::kParam});
  }
  const SwapPlan plan =
      make_swap_plan(test::setup_with(inventory, R"({"bf16": {"enabled": true}, "zero_optimization":
          {"stage": 2, "offload_optimizer": {"device": "cpu"}}})"),
                     test::baseline_machine());
  EXPECT_EQ(bytes_of(plan, Component::kBuffers, Storage::kRam), (16 + 2) * kMiB)
      << "new weights and the largest gradient, as measured in DeepSpeed 0.19.8";
  EXPECT_EQ(bytes_of(plan, Component::kBuffers, Storage::kDevice), 2 * kMiB);
}

TEST(MemoryTableTest, IntegersAreNotTrained) {
  Inventory inventory;
  inventory.tensors.push_back({"quantized", DType::kU8, {1024, 1024}, Role::kParam});
  inventory.tensors.push_back({"norm", DType::kBF16, {1024}, Role::kParam});
  const SwapPlan plan =
      make_swap_plan(test::setup_without_config(inventory), test::baseline_machine());
  EXPECT_EQ(bytes_of(plan, Component::kGradients), 1024 * 2U);
  EXPECT_EQ(bytes_of(plan, Component::kMoments), 1024 * 8U);
}

TEST(MemoryTableTest, EveryComponentHasARow) {
  const SwapPlan plan = plan_of("qwen3-0.6b", 2, 1, OptimizerKind::kNone);
  for (const Component component :
       {Component::kParameters, Component::kGradients, Component::kMaster, Component::kMoments,
        Component::kActivations, Component::kBuffers}) {
    const bool has_row =
        std::any_of(plan.memory.begin(), plan.memory.end(),
                    [component](const MemoryRow& row) { return row.component == component; });
    EXPECT_TRUE(has_row) << component_name(component);
  }
}

TEST(MemoryTableTest, ActivationsAreAsGiven) {
  TrainingSetup setup = test::setup_without_config(test::data_inventory("qwen3-0.6b"));
  setup.activation_bytes = 20'000'000'000;
  const SwapPlan plan = make_swap_plan(setup, test::baseline_machine());
  EXPECT_EQ(bytes_of(plan, Component::kActivations, Storage::kDevice), 20'000'000'000U);
}

TEST(MemoryTableTest, WhatIsGatheredHasALimit) {
  const SwapPlan plan = plan_of("llama-3.1-8b", 3, 4, OptimizerKind::kAdamW);
  EXPECT_EQ(bytes_of(plan, Component::kBuffers, Storage::kDevice), 2'000'000'000U)
      << "stage3_max_live_parameters of 1e9 elements in bf16";
}

// Bytes of full fine-tuning that the baseline's seventh row measured as 15.4 and 14.0 a parameter.
TEST(StepTrafficTest, FullFineTuningReadsWhatDeepSpeedFetches) {
  Config config = load_config(test::data_path("full-finetune.json")).value();
  config.penstock.ram_bytes = 0;
  config.deepspeed.stage3_prefetch_bucket_size = 0;
  const auto plan = [&config] {
    return make_swap_plan(test::setup_with(test::data_inventory("qwen3-0.6b"), config),
                          test::baseline_machine());
  };
  const double parameters = 596'049'920;
  const double embedding = 155'582'464 / parameters;
  EXPECT_NEAR(static_cast<double>(plan().traffic.read_bytes) / parameters,
              12 + 2 * (2 + 2 * embedding), 0.01)
      << "states; parameters of 2 bytes twice; the tied embedding at both ends of each pass";
  EXPECT_NEAR(static_cast<double>(plan().traffic.write_bytes) / parameters, 14.0, 0.01);

  config.deepspeed.stage3_prefetch_bucket_size = 50'000'000;
  EXPECT_NEAR(static_cast<double>(plan().traffic.read_bytes) / parameters, 15.5, 0.15)
      << "prefetching marks what backward needs again as fetched, and keeps it";
}

}  // namespace
}  // namespace penstock

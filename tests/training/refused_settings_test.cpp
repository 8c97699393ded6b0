#include "bindings/deepspeed/refused_settings.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/training/training_fixture.h"
#include "tests/training/warning_matcher.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::IsEmpty;

// With keys of zero_optimization and, behind it, of the top.
TrainingSetup setup_of(const char* param, const char* optimizer, const char* zero = "",
                       const char* top = "") {
  Inventory inventory;
  inventory.tensors.push_back({"large", DType::kBF16, {3001, 1000}, Role::kParam});
  return test::setup_with(inventory, fmt::format(R"({{"zero_optimization": {{"stage": 3,
      "offload_param": {{"device": "{}", "nvme_path": "/n"}},
      "offload_optimizer": {{"device": "{}", "nvme_path": "/n"}} {}}} {}}})",
                                                 param, optimizer, zero, top));
}

TEST(RefusedSettingsTest, WhatTrainingRefusesDoesNotFit) {
  const char* const kZenflow = R"(, "zenflow": {})";
  const SwapPlan plan =
      make_swap_plan(setup_of("nvme", "nvme", kZenflow), test::baseline_machine());
  EXPECT_TRUE(plan.feasibility.feasible);
  ASSERT_NE(plan.misfit(), nullptr);
  EXPECT_THAT(*plan.misfit(), AllOf(Warns("refused", "zero_optimization.zenflow"),
                                    Says("does not work with tensors on NVMe")));
  EXPECT_THAT(warn_about_refusals(setup_of("cpu", "nvme", kZenflow)),
              ElementsAre(Warns("refused", "zero_optimization.zenflow")));
  EXPECT_THAT(warn_about_refusals(setup_of("cpu", "cpu", kZenflow)), IsEmpty());
}

TEST(RefusedSettingsTest, EachIsFoundAndItsHarmlessValueIsNot) {
  for (const auto& [refused, harmless] : {
           std::pair{R"(, "zero_hpz_partition_size": 2)", R"(, "zero_hpz_partition_size": 1)"},
           std::pair{R"(, "mics_shard_size": 2)", R"(, "mics_shard_size": -1)"},
           std::pair{R"(, "zero_quantized_weights": true)", R"(, "zero_quantized_weights": false)"},
           std::pair{R"(, "zero_quantized_gradients": true)", R"(, "zenflow": null)"},
       }) {
    EXPECT_THAT(warn_about_refusals(setup_of("nvme", "none", refused)).size(), 1U) << refused;
    EXPECT_THAT(warn_about_refusals(setup_of("nvme", "none", harmless)), IsEmpty()) << harmless;
  }
  const auto with_top = [](const char* top) {
    return warn_about_refusals(setup_of("nvme", "none", "", top));
  };
  EXPECT_THAT(with_top(R"(, "compile": {"deepcompile": true})"),
              ElementsAre(Warns("refused", "compile.deepcompile")));
  EXPECT_THAT(with_top(R"(, "penstock": {"mode": "durable"})"),
              ElementsAre(Warns("refused", "penstock.mode")));
  EXPECT_THAT(with_top(R"(, "penstock": {"mode": "scratch"})"), IsEmpty());
}

TEST(RefusedSettingsTest, SomeNeedParametersOnNvme) {
  const char* const kPartition = R"(, "zero_hpz_partition_size": 2)";
  EXPECT_THAT(warn_about_refusals(setup_of("cpu", "nvme", kPartition)), IsEmpty());
}

TEST(RefusedSettingsTest, MastersOf16BitsNeedDeepSpeedsCpuAdam) {
  const auto with = [](const char* device, const char* optimizer, const char* flags = "") {
    const std::string keys =
        fmt::format(R"(, "bf16": {{"enabled": true, "bf16_master_weights_and_grads": true {}}} {})",
                    flags, optimizer);
    return warn_about_masters(setup_of("nvme", device, "", keys.c_str()));
  };
  constexpr const char* kAdam = R"(, "optimizer": {"type": "AdamW"})";
  for (const char* type : {"Lion", "Adagrad", "SGD"}) {
    const std::string optimizer = fmt::format(R"(, "optimizer": {{"type": "{}"}})", type);
    for (const char* device : {"nvme", "cpu"}) {
      EXPECT_THAT(with(device, optimizer.c_str()),
                  ElementsAre(AllOf(Warns("refused", "bf16.bf16_master_weights_and_grads"),
                                    Says(fmt::format("its own CPU Adam, not with {}", type)))));
    }
  }
  constexpr const char* kTorch = R"(, "optimizer": {"type": "Adam", "params": {"torch_adam": 1}})";
  EXPECT_THAT(with("nvme", kTorch), ElementsAre(Says("not with torch's Adam;")));
  EXPECT_THAT(with("nvme", kAdam), IsEmpty());
  EXPECT_THAT(with("nvme", ""), IsEmpty()) << "a script's own";
  EXPECT_THAT(with("none", kAdam), ElementsAre(Says("only where the optimizer is offloaded")));
  EXPECT_THAT(with("none", kTorch, R"(, "bf16_optimizer_states": true)"), IsEmpty());
  EXPECT_EQ(with("nvme", kTorch, R"(, "bf16_optimizer_states": true)").size(), 1U);
  EXPECT_THAT(warn_about_masters(setup_of("nvme", "nvme", "", R"(, "optimizer": {"type": "SGD"})")),
              IsEmpty());
  const SwapPlan plan = make_swap_plan(
      setup_of("nvme", "nvme", "", R"(, "fp16": {"fp16_master_weights_and_grads": true},
                                       "optimizer": {"type": "Lion"})"),
      test::baseline_machine());
  ASSERT_NE(plan.misfit(), nullptr);
  EXPECT_THAT(*plan.misfit(), Warns("refused", "fp16.fp16_master_weights_and_grads"));
}

TEST(RefusedSettingsTest, WhatIsAssumedOfTheOptimizerIsSaid) {
  EXPECT_THAT(warn_about_optimizer(setup_of("nvme", "nvme")),
              ElementsAre(AllOf(Warns("assumed", "optimizer"), Says("in one group"))));
  EXPECT_THAT(warn_about_optimizer(
                  setup_of("nvme", "nvme", "", R"(, "gradient_accumulation_steps": "auto")")),
              ElementsAre(Says("biases and norms in a second group")));
  EXPECT_THAT(
      warn_about_optimizer(setup_of("nvme", "nvme", "", R"(, "optimizer": {"type": "Muon"})")),
      ElementsAre(AllOf(Warns("assumed", "optimizer.type"), Says("states of Muon"))));
  for (const char* known : {"AdamW", "ASGD", "Adafactor"}) {
    const std::string keys = fmt::format(R"(, "optimizer": {{"type": "{}"}})", known);
    EXPECT_THAT(warn_about_optimizer(setup_of("nvme", "nvme", "", keys.c_str())), IsEmpty())
        << known;
  }
  EXPECT_THAT(warn_about_optimizer(setup_of("nvme", "cpu")), IsEmpty());
}

TEST(RefusedSettingsTest, WithoutABatchSizeDeepSpeedDoesNotBegin) {
  EXPECT_THAT(warn_about_batches(setup_of("nvme", "nvme")),
              ElementsAre(AllOf(Warns("batch-sizes", "train_micro_batch_size_per_gpu"),
                                Says("unless the script adds one"))));
  for (const char* size : {R"(, "train_batch_size": "auto")", R"(, "train_batch_size": 1)",
                           R"(, "train_micro_batch_size_per_gpu": 1)"}) {
    EXPECT_THAT(warn_about_batches(setup_of("nvme", "nvme", "", size)), IsEmpty()) << size;
  }
}

TEST(RefusedSettingsTest, BatchSizesThatContradictEachOther) {
  const auto sizes = [](const char* total, const char* micro, const char* passes) {
    return warn_about_batches(
        setup_of("nvme", "nvme", "",
                 fmt::format(R"(, "train_batch_size": {}, "train_micro_batch_size_per_gpu": {},
                       "gradient_accumulation_steps": {})",
                             total, micro, passes)
                     .c_str()));
  };
  EXPECT_THAT(sizes("12", "2", "4"), ElementsAre(AllOf(Warns("batch-sizes", "train_batch_size"),
                                                       Says("12 is not 2 samples a pass x 4"))));
  EXPECT_THAT(sizes("7", "2", "\"auto\"").size(), 1U);
  EXPECT_THAT(sizes("12", "\"auto\"", "5").size(), 1U);
  EXPECT_THAT(sizes("12", "\"auto\"", "4"), IsEmpty());
  EXPECT_THAT(sizes("12", "3", "4"), IsEmpty());
  EXPECT_THAT(sizes("\"auto\"", "3", "4"), IsEmpty());
}

}  // namespace
}  // namespace penstock

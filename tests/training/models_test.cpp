#include <gtest/gtest.h>

#include <tuple>

#include "tests/training/training_fixture.h"

// Every model of bench/data, in both shapes where it has two, under many setups.
namespace penstock {
namespace {

// transformers 5 fuses the experts of a layer; the checkpoint on the hub has one tensor per expert.
Inventory unfused(const Inventory& fused) {
  Inventory split;
  for (const TensorInfo& info : fused.tensors) {
    const bool is_gate_up = info.name.ends_with("experts.gate_up_proj");
    if (!is_gate_up && !info.name.ends_with("experts.down_proj")) {
      split.tensors.push_back(info);
      continue;
    }
    const std::string prefix = info.name.substr(0, info.name.rfind('.'));
    for (std::uint64_t expert = 0; expert < info.shape[0]; ++expert) {
      for (const char* projection :
           is_gate_up ? std::vector{"gate_proj", "up_proj"} : std::vector{"down_proj"}) {
        TensorInfo one = info;
        one.name = fmt::format("{}.{}.{}.weight", prefix, expert, projection);
        one.shape = {768, 2048};
        split.tensors.push_back(std::move(one));
      }
    }
  }
  return split;
}

Inventory model(const std::string& name) {
  return name == "qwen3-30b-a3b-hub" ? unfused(test::data_inventory("qwen3-30b-a3b"))
                                     : test::data_inventory(name);
}

using Parameters = std::tuple<const char*, const char*, std::uint32_t, std::uint32_t>;

class ModelsTest : public testing::TestWithParam<Parameters> {};

TEST_P(ModelsTest, PlansAreSoundAtEverySetup) {
  const auto& [name, config, world_size, stage] = GetParam();
  TrainingSetup setup =
      *config == '\0' ? test::setup_without_config(model(name))
                      : test::setup_with(model(name), load_config(test::data_path(config)).value());
  setup.world_size = world_size;
  setup.ranks_on_node = world_size;
  setup.stage = stage;
  for (const OptimizerKind optimizer : {OptimizerKind::kNone, OptimizerKind::kAdamW,
                                        OptimizerKind::kAdamW8Bit, OptimizerKind::kAdamW4Bit}) {
    for (const bool tight : {false, true}) {
      setup.optimizer = optimizer;
      if (tight) {
        setup.config.penstock.max_pinned_bytes = 64 * kMiB;
        setup.config.penstock.ram_bytes = 0;
      }
      const SwapPlan plan = make_swap_plan(setup, test::baseline_machine());
      SCOPED_TRACE(fmt::format("{} tight {}", optimizer_name(optimizer), tight));
      EXPECT_TRUE(plan.feasibility.feasible) << plan.feasibility.reason;
      test::expect_sound(plan.tensors, plan.placement);
      if (stage == 2) {
        EXPECT_EQ(plan.placement.nvme_bytes, 0U);
        EXPECT_EQ(plan.placement.tensors[0].place, Place::kDevice);
      }
      if (stage == 3 && tight) {
        EXPECT_GT(plan.placement.nvme_bytes, 0U);
        EXPECT_GT(plan.placement.pinned_bytes, 4 * kMiB);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ModelsTest,
    testing::Combine(testing::Values("qwen3-0.6b", "llama-3.1-8b", "qwen2.5-7b", "qwen3-30b-a3b",
                                     "qwen3-30b-a3b-hub"),
                     testing::Values("", "seed-003.json", "full-finetune.json"),
                     testing::Values(1U, 2U, 8U), testing::Values(2U, 3U)),
    [](const testing::TestParamInfo<Parameters>& test) {
      std::string name =
          fmt::format("{}_{}_w{}_s{}", std::get<0>(test.param), std::get<1>(test.param),
                      std::get<2>(test.param), std::get<3>(test.param));
      for (char& c : name) {
        c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      }
      return name;
    });

TEST(MixtureOfExpertsTest, BothShapesHaveTheSameBytes) {
  const Inventory fused = test::data_inventory("qwen3-30b-a3b");
  const Inventory split = unfused(fused);
  EXPECT_EQ(split.tensors.size(), 18'867U);
  EXPECT_EQ(split.bytes(), fused.bytes());
}

TEST(MixtureOfExpertsTest, FusedExpertsAreOutliersUnderDeepSpeedsDefaultBuffer) {
  const char* config = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
      "offload_param": {"device": "nvme", "nvme_path": "/n"}}})";
  const SwapPlan fused = make_swap_plan(
      test::setup_with(test::data_inventory("qwen3-30b-a3b"), config), test::baseline_machine());
  EXPECT_EQ(fused.stock.error, "More elements 311164928 than buffer size 100000000");
  EXPECT_TRUE(fused.feasibility.feasible);
  EXPECT_EQ(fused.placement.budgets.max_pinned_bytes, 64 * kMiB)
      << "outliers do not raise what is pinned";
  EXPECT_EQ(test::placed(fused, "model.layers.47.mlp.experts.gate_up_proj").place, Place::kStream);

  const SwapPlan split =
      make_swap_plan(test::setup_with(unfused(test::data_inventory("qwen3-30b-a3b")), config),
                     test::baseline_machine());
  EXPECT_EQ(test::placed(split, "model.layers.47.mlp.experts.127.up_proj.weight").place,
            Place::kClass);
  test::expect_sound(split.tensors, split.placement);
}

}  // namespace
}  // namespace penstock

#include "bindings/deepspeed/process_memory.h"

#include <gtest/gtest.h>

#include <utility>

#include "alloc/bytes.h"
#include "bindings/deepspeed/swap_plan.h"
#include "tests/training/training_fixture.h"

namespace penstock {
namespace {

constexpr std::string_view kNothingInRam = R"({
    "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/a"},
    "offload_optimizer": {"device": "nvme", "nvme_path": "/a"}}, "bf16": {"enabled": true},
    "penstock": {"ram_bytes": 0, "max_pinned_bytes": "64MiB"}})";

TrainingSetup small_setup() {
  Inventory inventory;
  inventory.tensors = {{"model.embed_tokens.weight", DType::kBF16, {4096, 1024}},
                       {"model.layers.0.mlp.up_proj.weight", DType::kBF16, {4096, 1024}},
                       {"lm_head.weight", DType::kBF16, {4096, 1024}}};
  return test::setup_with(std::move(inventory), kNothingInRam);
}

ProcessMemory memory_of(TrainingSetup setup) {
  MachineFacts machine = test::baseline_machine();
  machine.has_accelerator = false;
  return make_swap_plan(std::move(setup), machine).process;
}

TEST(ProcessMemoryTest, WhatWaitsForASlowDriveIsNoPartOfThePeak) {
  const ProcessMemory memory = memory_of(small_setup());
  // 16-bit weights, masters and moments: 14 bytes of each of 3 x 4 Mi elements.
  EXPECT_EQ(memory.behind_bytes, 14 * 12 * kMiB);
  EXPECT_EQ(memory.peak_bytes() + memory.behind_bytes, memory.training_bytes());
  const ProcessMemory large =
      memory_of(test::setup_with(test::data_inventory("qwen3-0.6b"), kNothingInRam));
  EXPECT_EQ(large.behind_bytes, kWriteBackSlackBytes);
}

TEST(ProcessMemoryTest, ATiedWeightHasTwoGradientsAtOnce) {
  TrainingSetup setup = small_setup();
  setup.inventory.ties.emplace();
  const ProcessMemory untied = memory_of(setup);
  setup.inventory.ties->push_back({"model.tied.weight", "model.embed_tokens.weight"});
  EXPECT_EQ(memory_of(setup).device_bytes, untied.device_bytes + 8 * kMiB);
  setup.inventory.tensors[0].is_trained = false;
  const ProcessMemory frozen = memory_of(setup);
  setup.inventory.ties->clear();
  EXPECT_EQ(memory_of(setup).device_bytes, frozen.device_bytes);
}

TEST(ProcessMemoryTest, HalfOfWhatGenerationGathersGivesWayToTheLoss) {
  TrainingSetup setup = test::setup_with(test::data_inventory("qwen3-0.6b"), kNothingInRam);
  const std::uint64_t head = 151'936ULL * 1024 * 2;
  const std::uint64_t before = memory_of(setup).device_bytes;
  setup.generates = true;
  // The head is gathered, and TRL's loss has two copies of it. Norms are not gathered.
  const std::uint64_t beside = 3 * head - setup.inventory.bytes() / 2;
  EXPECT_NEAR(static_cast<double>(memory_of(setup).device_bytes - before),
              static_cast<double>(beside), 1.0 * kMiB);
}

}  // namespace
}  // namespace penstock

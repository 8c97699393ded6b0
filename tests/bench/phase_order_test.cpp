#include "bench/workload/swap/swap_inventory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "alloc/bytes.h"
#include "bench/workload/swap/tensor_pattern.h"

namespace penstock::bench {
namespace {

using Kind = PhaseUse::Kind;
using Order = std::vector<PhaseUse>;
using Numbers = std::vector<std::uint32_t>;

Inventory model(int layers) {
  Inventory inventory;
  inventory.tensors.push_back({"embed", DType::kBF16, {64 << 20}, Role::kParam});
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "layers." + std::to_string(layer);
    inventory.tensors.push_back({name + ".up", DType::kBF16, {4 << 20}, Role::kParam});
    inventory.tensors.push_back({name + ".down", DType::kBF16, {4 << 20}, Role::kParam});
    inventory.tensors.push_back({name + ".q", DType::kBF16, {1 << 20}, Role::kParam});
    inventory.tensors.push_back({name + ".norm", DType::kBF16, {1024}, Role::kParam});
  }
  inventory.tensors.push_back({"head", DType::kBF16, {64 << 20}, Role::kParam});
  return inventory;
}

TrainingSetup nvme_setup(Inventory inventory, std::uint64_t sub_group_size) {
  TrainingSetup setup;
  setup.inventory = std::move(inventory);
  setup.has_config = true;
  setup.config.deepspeed.model_dtype = DType::kBF16;
  setup.config.deepspeed.sub_group_size = sub_group_size;
  setup.config.deepspeed.offload_param.emplace().device = OffloadDevice::kNvme;
  setup.config.deepspeed.offload_optimizer.emplace().device = OffloadDevice::kNvme;
  return setup;
}

TEST(SwapInventory, SwapsWhatDeepSpeedSwaps) {
  // embed 64 Mi | up, down, q, norm 9 Mi + 1 Ki | head 64 Mi elements
  const SwapInventory swapped = swap_inventory(nvme_setup(model(1), 50 << 20), Phase::kTrain);
  ASSERT_EQ(swapped.parameters.size(), 5U);  // the norm is too small
  EXPECT_EQ(swapped.tensors[swapped.parameters[3]].name, "layers.0.q");
  ASSERT_EQ(swapped.sub_groups.size(), 2U);  // the second ends as it grows beyond 50 Mi
  EXPECT_EQ(swapped.sub_groups[0].parameters, (Numbers{0}));
  EXPECT_EQ(swapped.sub_groups[1].parameters, (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(swapped.sub_groups[1].elements, (73U << 20) + 1024);
}

TEST(SwapInventory, TheOptimizerStepsInChunks) {
  const SwapInventory swapped = swap_inventory(nvme_setup(model(1), 50 << 20), Phase::kTrain);
  ASSERT_EQ(swapped.steps.size(), 64U + 74);  // of 1 Mi elements; 1 Ki are left
  std::map<std::size_t, Numbers> rewritten;
  for (std::size_t number = 0; number < swapped.steps.size(); ++number) {
    const SwapInventory::Step& step = swapped.steps[number];
    ASSERT_EQ(step.states.size(), 3U);
    EXPECT_EQ(step.sub_group, number < 64 ? 0U : 1U);
    for (const std::uint32_t state : step.states) {
      EXPECT_EQ(swapped.tensors[state].elements(), number + 1 < swapped.steps.size() ? kMiB : kKiB);
      EXPECT_EQ(swapped.tensors[state].dtype, DType::kF32);
    }
    if (!step.parameters.empty()) {
      rewritten[number] = step.parameters;
    }
  }
  // Each where its master ends: after 64 | 4, 8, 9 and 73 Mi (and a norm's 1 Ki) elements.
  EXPECT_EQ(rewritten,
            (std::map<std::size_t, Numbers>{
                {63, {0}}, {64 + 3, {1}}, {64 + 7, {2}}, {64 + 8, {3}}, {64 + 73, {4}}}));
  EXPECT_EQ(swapped.tensors[swapped.steps[1].states[0]].name, "0.1048576.master");
}

// The optimizer has the norm, a vector, in a second group, and the frozen embedding in none.
TEST(SwapInventory, ParametersAreSteppedInTheOptimizersOrder) {
  TrainingSetup setup = nvme_setup(model(1), 1 << 30);
  setup.config.automatic = {"train_batch_size"};
  for (TensorInfo& tensor : setup.inventory.tensors) {
    tensor.is_trained = tensor.name != "embed";
    tensor.shape = {tensor.shape.front() / 1024, 1024};
  }
  TensorInfo& norm = setup.inventory.tensors[4];
  norm.shape = {4 << 20};
  const SwapInventory swapped = swap_inventory(setup, Phase::kTrain);
  ASSERT_EQ(swapped.sub_groups.size(), 2U);
  EXPECT_EQ(swapped.sub_groups[0].parameters, (Numbers{1, 2, 3, 5}));
  EXPECT_EQ(swapped.sub_groups[1].parameters, (Numbers{4}));
  ASSERT_EQ(swapped.steps.size(), 73U + 4);
  EXPECT_EQ(swapped.steps[72].parameters, (Numbers{5}));
  EXPECT_EQ(swapped.steps.back().parameters, (Numbers{4}));
}

TEST(SwapInventory, APhaseHasWhatItUses) {
  const TrainingSetup setup = nvme_setup(model(1), 50 << 20);
  for (const Phase phase : {Phase::kForward, Phase::kGenerate}) {
    const SwapInventory swapped = swap_inventory(setup, phase);
    EXPECT_EQ(swapped.tensors.size(), swapped.parameters.size());
    EXPECT_TRUE(swapped.steps.empty());
  }
  const SwapInventory step = swap_inventory(setup, Phase::kStep);
  EXPECT_EQ(step.tensors.size(), 3 * step.steps.size());
  EXPECT_TRUE(step.parameters.empty());
}

TEST(SwapInventory, WithoutAConfigurationEverythingIsSwapped) {
  TrainingSetup setup;
  setup.inventory = model(1);
  EXPECT_EQ(swap_inventory(setup, Phase::kTrain).parameters.size(), 6U);
}

TEST(SwapInventory, StatesThatAreListedAreAStepEach) {
  TrainingSetup setup;
  setup.inventory.tensors = {{"w", DType::kBF16, {1 << 20}, Role::kParam},
                             {"w.master", DType::kF32, {1 << 20}, Role::kMaster},
                             {"w.m", DType::kF32, {1 << 20}, Role::kMoment}};
  const SwapInventory swapped = swap_inventory(setup, Phase::kTrain);
  ASSERT_EQ(swapped.steps.size(), 2U);
  EXPECT_EQ(swapped.steps[1].states, (Numbers{2}));
  EXPECT_TRUE(swapped.sub_groups.empty());
}

TEST(SwapInventory, OnlyWhatIsOnNvmeIsSwapped) {
  TrainingSetup setup = nvme_setup(model(1), 1 << 30);
  setup.config.deepspeed.offload_param->device = OffloadDevice::kCpu;
  const SwapInventory swapped = swap_inventory(setup, Phase::kTrain);
  EXPECT_TRUE(swapped.parameters.empty());
  EXPECT_EQ(swapped.sub_groups.size(), 1U);
  EXPECT_TRUE(phase_order(swapped, Phase::kForward).empty());
}

TEST(PhaseOrder, IsTheRuntimes) {
  SwapInventory inventory;
  inventory.tensors.resize(8, {"t", DType::kF32, {1024}, Role::kParam});
  inventory.parameters = {0, 1};
  inventory.steps = {{{2, 3, 4}, {0}, 0}, {{5, 6, 7}, {1}, 1}};
  const Order forward{{Kind::kParameter, 0}, {Kind::kParameter, 1}};
  const Order step{{Kind::kStep, 0}, {Kind::kStep, 1}};
  EXPECT_EQ(phase_order(inventory, Phase::kForward), forward);
  EXPECT_EQ(phase_order(inventory, Phase::kStep), step);
  Order train = forward;
  train.insert(train.end(), {{Kind::kParameter, 1}, {Kind::kParameter, 0}});
  train.insert(train.end(), step.begin(), step.end());
  EXPECT_EQ(phase_order(inventory, Phase::kTrain), train);
  const Order generate = phase_order(inventory, Phase::kGenerate);
  ASSERT_EQ(generate.size(), kTokensPerLoop * forward.size());
  EXPECT_EQ(generate[2], forward[0]);
  const PhaseBytes bytes = phase_bytes(inventory, train);
  EXPECT_EQ(bytes.read, 4096U * 10);
  EXPECT_EQ(bytes.write, 4096U * 8);
}

std::map<std::uint64_t, std::uint64_t> bytes_by_size(const Inventory& inventory) {
  std::map<std::uint64_t, std::uint64_t> bytes;
  for (const TensorInfo& tensor : inventory.tensors) {
    bytes[tensor.bytes()] += tensor.bytes();
  }
  return bytes;
}

TEST(InventorySubset, KeepsTheDistributionOfSizes) {
  const Inventory whole = model(64);
  for (const double share : {0.25, 0.5, 0.8}) {
    const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(whole.bytes()));
    const Inventory subset = inventory_subset(whole, wanted);
    // Half of one of the many that have 2 MiB.
    EXPECT_NEAR(static_cast<double>(subset.bytes()), static_cast<double>(wanted), 1.0 * kMiB)
        << share;
    const auto all = bytes_by_size(whole);
    const auto some = bytes_by_size(subset);
    for (const auto& [size, bytes] : all) {
      if (size < kMiB) {
        continue;  // all of them are less than what larger ones round off
      }
      const double part = static_cast<double>(some.contains(size) ? some.at(size) : 0);
      // Within one tensor of the size itself, and what larger ones have rounded off.
      EXPECT_NEAR(part, share * static_cast<double>(bytes),
                  static_cast<double>(size) + 0.12 * static_cast<double>(bytes))
          << size << " at " << share;
    }
  }
}

TEST(InventorySubset, KeepsTheOrderAndReachesOverTheWholeModel) {
  const Inventory whole = model(64);
  const Inventory subset = inventory_subset(whole, whole.bytes() / 4);
  std::size_t at = 0;
  for (const TensorInfo& tensor : subset.tensors) {
    while (at < whole.tensors.size() && whole.tensors[at].name != tensor.name) {
      ++at;
    }
    ASSERT_LT(at, whole.tensors.size()) << tensor.name;
  }
  const std::string last = subset.tensors[subset.tensors.size() - 2].name;
  EXPECT_TRUE(last.starts_with("layers.6")) << last;
  EXPECT_EQ(inventory_subset(whole, whole.bytes() / 4).tensors.size(), subset.tensors.size());
}

TEST(InventorySubset, IsNeverEmptyAndNeverMoreThanThereIs) {
  const Inventory whole = model(2);
  EXPECT_EQ(inventory_subset(whole, 1).tensors.size(), 1U);
  EXPECT_EQ(inventory_subset(whole, whole.bytes()).tensors.size(), whole.tensors.size());
  EXPECT_EQ(inventory_subset(whole, ~0ULL).tensors.size(), whole.tensors.size());
}

TEST(TensorPattern, TellsEveryByteFromAnyOther) {
  std::vector<std::byte> content(3 * 4096 + 5);
  TensorPattern(3, 1).fill(content);
  EXPECT_EQ(TensorPattern(3, 1).first_difference(content), std::nullopt);
  EXPECT_EQ(TensorPattern(3, 2).first_difference(content), 0U);
  EXPECT_EQ(TensorPattern(4, 1).first_difference(content), 0U);
  for (const std::size_t at : {std::size_t{0}, std::size_t{4099}, content.size() - 1}) {
    content[at] ^= std::byte{0x10};
    EXPECT_EQ(TensorPattern(3, 1).first_difference(content), at);
    content[at] ^= std::byte{0x10};
  }
  // Two blocks in each other's place.
  std::swap_ranges(content.begin(), content.begin() + 4096, content.begin() + 4096);
  EXPECT_TRUE(TensorPattern(3, 1).first_difference(content).has_value());
}

}  // namespace
}  // namespace penstock::bench

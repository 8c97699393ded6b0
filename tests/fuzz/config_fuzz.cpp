// seeds: bench/data/*.json
//
// A user's DeepSpeed file with our block: whatever is in it, reading ends in a configuration or in
// one sentence, and a configuration ends in a plan or in a reason, within its own budgets.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "bindings/deepspeed/config.h"
#include "bindings/deepspeed/swap_plan.h"
#include "tests/fuzz/sentence.h"

namespace penstock {
namespace {

/// A small model with every kind of tensor: an outlier, layers, norms, a buffer.
Inventory model() {
  Inventory inventory;
  const auto add = [&](std::string name, std::vector<std::uint64_t> shape, Role role) {
    inventory.tensors.push_back({std::move(name), DType::kBF16, std::move(shape), role});
  };
  add("model.embed_tokens.weight", {32'000, 1024}, Role::kParam);
  for (const char* layer : {"model.layers.0", "model.layers.1", "model.layers.10"}) {
    add(std::string(layer) + ".mlp.up_proj.weight", {3072, 1024}, Role::kParam);
    add(std::string(layer) + ".self_attn.k_proj.weight", {512, 1024}, Role::kParam);
    add(std::string(layer) + ".norm.weight", {1024}, Role::kParam);
  }
  add("model.rotary", {1 << 20}, Role::kBuffer);
  return inventory;
}

void plan_with(Config config) {
  TrainingSetup setup;
  setup.inventory = model();
  setup.has_config = config.deepspeed.is_given;
  setup.stage = config.deepspeed.stage;
  setup.config = std::move(config);
  setup.world_size = 2;
  const SwapPlan plan = make_swap_plan(std::move(setup), MachineFacts{});
  if (!plan.feasibility.feasible) {
    PENSTOCK_CHECK(!plan.feasibility.reason.empty(), "{}", "a plan is refused without a reason");
    return;
  }
  PENSTOCK_CHECK(plan.placement.tensors.size() == plan.tensors.size(), "{} places for {} tensors",
                 plan.placement.tensors.size(), plan.tensors.size());
  PENSTOCK_CHECK(plan.placement.pinned_bytes <= plan.placement.budgets.max_pinned_bytes,
                 "{} bytes pinned of {}", plan.placement.pinned_bytes,
                 plan.placement.budgets.max_pinned_bytes);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  Result<Config> config = parse_config(text, "ds.json");
  if (config.has_error()) {
    expect_sentence(config.error());
    PENSTOCK_CHECK(config.error().code == make_error_code(Fault::kConfiguration), "{}",
                   config.error().message);
    return 0;
  }
  (void)config->paths();
  plan_with(std::move(*config));
  return 0;
}

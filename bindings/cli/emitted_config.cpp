#include "bindings/cli/emitted_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "swap/plan/input_file.h"

namespace penstock::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kConfigBytesMax = 16ULL << 20;
// DeepSpeed's own default, which its prefetching wants at least.
constexpr std::uint64_t kBuffersMin = 5;

// `model.layers.0.self_attn` of `model.layers.0.self_attn.q_proj.weight`: the module whose
// children's parameters DeepSpeed gathers together when transformers initialises it.
std::string module_above(const std::string& name) {
  std::size_t end = name.rfind('.');
  end = end == std::string::npos || end == 0 ? std::string::npos : name.rfind('.', end - 1);
  return end == std::string::npos ? std::string() : name.substr(0, end);
}

bool is_swapped(const SwapPlan& plan, std::size_t i) {
  return plan.setup.inventory.tensors[i].role == Role::kParam && plan.tensors[i].swappable;
}

std::uint64_t largest_partition(const SwapPlan& plan) {
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < plan.setup.inventory.tensors.size(); ++i) {
    if (is_swapped(plan, i)) {
      largest = std::max(largest, plan.setup.rank_elements(plan.setup.inventory.tensors[i]));
    }
  }
  return largest;
}

std::uint64_t largest_gathering(const SwapPlan& plan) {
  std::unordered_map<std::string, std::uint64_t> swapped_in;
  std::uint64_t most = kBuffersMin;
  for (std::size_t i = 0; i < plan.setup.inventory.tensors.size(); ++i) {
    if (is_swapped(plan, i)) {
      most = std::max(most, ++swapped_in[module_above(plan.tensors[i].name)]);
    }
  }
  return most;
}

ordered_json minimal_config(const SwapPlan& plan) {
  ordered_json config{{"train_batch_size", "auto"},
                      {"train_micro_batch_size_per_gpu", "auto"},
                      {"gradient_accumulation_steps", "auto"}};
  // The type that most of the model has.
  std::uint64_t sixteen_bit = 0;
  DType dtype = DType::kF32;
  for (const TensorInfo& info : plan.setup.inventory.tensors) {
    if (info.dtype == DType::kBF16 || info.dtype == DType::kF16) {
      sixteen_bit += info.elements();
      dtype = info.dtype;
    }
  }
  if (sixteen_bit * 2 > plan.setup.inventory.elements()) {
    config[dtype == DType::kBF16 ? "bf16" : "fp16"] = {{"enabled", true}};
  }
  config["zero_optimization"] = {
      {"stage", 3},
      {"offload_param",
       {{"device", "nvme"}, {"nvme_path", "swap"}, {"pin_memory", true}, {"max_in_cpu", 0}}},
      {"stage3_max_reuse_distance", 0}};
  return config;
}

Result<ordered_json> base_config(const SwapPlan& plan, const std::string& path) {
  if (path.empty()) {
    return minimal_config(plan);
  }
  Result<std::string> text = read_text_file(path, kConfigBytesMax);
  if (!text) {
    return std::move(text).error();
  }
  // It has been parsed before, strictly; only another process could have broken it since.
  ordered_json config = ordered_json::parse(*text, nullptr, false);
  if (!config.is_object()) {
    return fault(Fault::kConfiguration, path + " changed while it was read");
  }
  if (!plan.setup.has_config) {
    ordered_json whole = minimal_config(plan);
    whole.update(config);
    return whole;
  }
  return config;
}

}  // namespace

Result<std::string> emit_config(const SwapPlan& plan, const std::string& config_path) {
  Result<ordered_json> base = base_config(plan, config_path);
  if (!base) {
    return std::move(base).error();
  }
  ordered_json& config = *base;
  const bool on_nvme = !plan.setup.has_config || plan.setup.param_device() == OffloadDevice::kNvme;
  if (const std::uint64_t elements = largest_partition(plan); on_nvme && elements != 0) {
    ordered_json& offload = config["zero_optimization"]["offload_param"];
    offload["buffer_count"] = largest_gathering(plan);
    offload["buffer_size"] = elements;
  }
  // Explicit, because their defaults would follow from the numbers just changed.
  config["penstock"]["max_pinned_bytes"] = plan.placement.budgets.max_pinned_bytes;
  config["penstock"]["ram_bytes"] = plan.placement.budgets.ram_bytes;
  return config.dump(2) + "\n";
}

}  // namespace penstock::cli

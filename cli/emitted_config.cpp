#include "cli/emitted_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "bindings/deepspeed/automatic_values.h"
#include "cli/document_text.h"
#include "cli/tuned_values.h"

namespace penstock::cli {
namespace {

using Json = ConfigDraft::Json;

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

// Stock builds the model with all of these in its buffers, also those that it keeps in memory
// later: persistent ones, and what max_in_cpu moves.
bool is_built_on_drive(const SwapPlan& plan, std::size_t i) {
  const TensorInfo& tensor = plan.setup.inventory.tensors[i];
  return tensor.role == Role::kParam && plan.setup.is_large(tensor);
}

struct Largest {
  std::uint64_t count = 0;
  std::string name;
};

// Elements of the largest partition, and whose they are.
Largest largest_partition(const SwapPlan& plan) {
  Largest largest;
  for (std::size_t i = 0; i < plan.setup.inventory.tensors.size(); ++i) {
    const std::uint64_t elements = plan.setup.rank_elements(plan.setup.inventory.tensors[i]);
    if (is_built_on_drive(plan, i) && elements > largest.count) {
      largest = {elements, plan.tensors[i].name};
    }
  }
  return largest;
}

// How many of these parameters one module has at most, and which module.
Largest largest_gathering(const SwapPlan& plan) {
  std::unordered_map<std::string, std::uint64_t> swapped_in;
  Largest largest;
  for (std::size_t i = 0; i < plan.setup.inventory.tensors.size(); ++i) {
    if (is_built_on_drive(plan, i)) {
      const std::string module = module_above(plan.tensors[i].name);
      if (++swapped_in[module] > largest.count) {
        largest = {swapped_in[module], module};
      }
    }
  }
  return largest;
}

// Whether the file puts parameters on NVMe; without one they go there at stage 3.
bool swaps_parameters(const SwapPlan& plan) {
  return plan.setup.has_config ? plan.setup.param_device() == OffloadDevice::kNvme
                               : plan.setup.stage == 3;
}

bool swaps_anything(const SwapPlan& plan) {
  return swaps_parameters(plan) || plan.setup.offloads_to_nvme();
}

Json minimal_config(const SwapPlan& plan, const std::string& nvme_path) {
  Json config{{"train_batch_size", "auto"},
              {"train_micro_batch_size_per_gpu", "auto"},
              {"gradient_accumulation_steps", "auto"}};
  const DType dtype = plan.setup.model_dtype().value_or(model_dtype(plan.setup.inventory));
  if (dtype != DType::kF32) {
    config[dtype == DType::kBF16 ? "bf16" : "fp16"] = {{"enabled", true}};
  }
  if (plan.setup.stage < 3) {  // which offloads no parameters
    config["zero_optimization"] = {{"stage", plan.setup.stage}};
    return config;
  }
  config["zero_optimization"] = {
      {"stage", 3},
      {"offload_param",
       {{"device", "nvme"}, {"nvme_path", nvme_path}, {"pin_memory", true}, {"max_in_cpu", 0}}},
      {"stage3_max_reuse_distance", 0}};
  return config;
}

Json base_config(const SwapPlan& plan, const std::string& text,
                 const bench::DriveTuning* measured) {
  const std::string nvme_path =
      measured == nullptr ? "swap" : measured->paths[measured->used.front()].path;
  if (text.empty()) {
    return minimal_config(plan, nvme_path);
  }
  const Json config =
      Json::parse(text, nullptr, true, true);  // with comments, as it was parsed before
  if (!plan.setup.has_config) {
    Json whole = minimal_config(plan, nvme_path);
    whole.update(config);
    return whole;
  }
  return config;
}

// How many buffers stock DeepSpeed needs at once, and why.
struct BufferCount {
  std::uint64_t count = 0;
  std::string why;
};

BufferCount buffers_needed(const SwapPlan& plan, std::uint64_t swapped) {
  if (plan.setup.generates) {
    return {std::max(swapped, kBuffersMin),
            "the trainer gathers all swapped parameters to generate; with fewer stock DeepSpeed "
            "dies with \"Not enough buffers\""};
  }
  const Largest gathering = largest_gathering(plan);
  if (gathering.count < kBuffersMin) {
    return {kBuffersMin, fmt::format("what prefetching wants at least; no module has more than {} "
                                     "swapped parameters",
                                     gathering.count)};
  }
  return {gathering.count, fmt::format("so many swapped parameters of {} come together",
                                       gathering.name.empty() ? "the model" : gathering.name)};
}

void set_parameter_buffers(const SwapPlan& plan, ConfigDraft& draft) {
  const Largest partition = largest_partition(plan);
  if (partition.count == 0 || !swaps_parameters(plan)) {
    return;
  }
  const OffloadConfig defaults;
  std::uint64_t swapped = 0;
  for (std::size_t i = 0; i < plan.setup.inventory.tensors.size(); ++i) {
    swapped += is_swapped(plan, i) ? 1U : 0U;
  }
  const BufferCount buffers = buffers_needed(plan, swapped);
  draft.set("zero_optimization.offload_param.buffer_count", buffers.count, buffers.why,
            defaults.buffer_count);
  const std::uint64_t reuse = plan.setup.config.deepspeed.stage3_max_reuse_distance;
  if (plan.setup.has_config && reuse > 0 && swapped > buffers.count) {
    draft.set(fmt::format("zero_optimization.{}",
                          plan.setup.config.written_name("stage3_max_reuse_distance")),
              std::uint64_t{0},
              "stock DeepSpeed keeps parameters in its buffers between uses otherwise, and dies "
              "with \"Not enough buffers\" from step 2 on",
              reuse);
  }
  draft.set("zero_optimization.offload_param.buffer_size", partition.count,
            fmt::format("elements of the largest partition, {}: every buffer of stock DeepSpeed "
                        "must hold it",
                        partition.name),
            defaults.buffer_size);
}

void set_optimizer_buffers(const SwapPlan& plan, ConfigDraft& draft) {
  const std::uint64_t needed = optimizer_buffers_needed(plan.setup);
  if (needed == 0) {
    return;
  }
  const std::uint64_t present = plan.setup.config.deepspeed.offload_optimizer->buffer_count;
  if (present < needed) {
    draft.set("zero_optimization.offload_optimizer.buffer_count", needed,
              "below it stock DeepSpeed's first step dies: Adam's tensors, doubled for each "
              "direction that is pipelined",
              present);
  }
}

// Where a budget comes from that the plan works with; one that is too little was lifted for that.
std::string why_budget(const SwapPlan& plan, const char* key, std::optional<std::uint64_t> given,
                       std::uint64_t used, const char* by_default) {
  const auto origin = plan.setup.config.origins.find(fmt::format("penstock.{}", key));
  if (!given || origin == plan.setup.config.origins.end()) {
    return by_default;
  }
  return *given == used
             ? "given by " + origin->second
             : fmt::format("the plan is impossible with {}, given by {}", *given, origin->second);
}

// Training takes one path there, as a text, so several move to the block, which has a place for
// them.
void set_paths(const SwapPlan& plan, ConfigDraft& draft) {
  const DeepSpeedConfig& config = plan.setup.config.deepspeed;
  bool has_several = false;
  const auto keep_first = [&](const std::optional<OffloadConfig>& offload, const char* key) {
    const bool is_path = !offload || offload->path_form == OffloadConfig::PathForm::kPath;
    if (!is_path && !offload->nvme_paths.empty()) {
      draft.set(key, offload->nvme_paths.front(), "the first: training takes one path");
      has_several = has_several || offload->nvme_paths.size() > 1;
    }
  };
  keep_first(config.offload_param, "zero_optimization.offload_param.nvme_path");
  keep_first(config.offload_optimizer, "zero_optimization.offload_optimizer.nvme_path");
  const std::vector<PathConfig> paths = plan.setup.config.paths();
  if (has_several && paths.size() > 1 && plan.setup.config.penstock.paths.empty()) {
    Json all = Json::array();
    for (const PathConfig& path : paths) {
      all.push_back(path.path);
    }
    draft.set("penstock.paths", std::move(all), "all that nvme_path names");
  }
}

// Explicit, because their defaults would follow from the numbers just changed.
void set_budgets(const SwapPlan& plan, ConfigDraft& draft) {
  const EngineConfig& given = plan.setup.config.penstock;
  const Budgets& used = plan.placement.budgets;
  const std::uint64_t pinned = used.written_pinned_bytes();
  draft.set("penstock.max_pinned_bytes", pinned,
            why_budget(plan, "max_pinned_bytes", given.max_pinned_bytes, pinned,
                       "64 MiB or two slots of the largest class"));
  draft.set("penstock.ram_bytes", used.ram_bytes,
            why_budget(plan, "ram_bytes", given.ram_bytes, used.ram_bytes,
                       "what the file let DeepSpeed pin, less max_pinned_bytes; said, for the "
                       "default follows from buffer_count and buffer_size"));
}

// Which the command line may have chosen, by the optimizer's name.
void set_states(const SwapPlan& plan, ConfigDraft& draft) {
  const StateFormat narrow = plan.setup.state_formats().narrow;
  if (plan.setup.steps_by_kernels() && narrow != plan.setup.config.states.narrow) {
    draft.set("penstock.optimizer_states", std::string(state_format_name(narrow)),
              "given by --optimizer");
  }
}

// The stage that is planned, where the command line has chosen it.
void set_stage(const SwapPlan& plan, ConfigDraft& draft) {
  const auto& origins = plan.setup.config.origins;
  const auto origin = origins.find("zero_optimization.stage");
  if (origin == origins.end() || origin->second != "--stage") {
    return;
  }
  constexpr const char* kWhy = "given by --stage";
  if (draft.value("zero_optimization").is_boolean()) {  // deprecated: a flag for stage 1
    draft.set("zero_optimization", Json{{"stage", plan.setup.stage}}, kWhy);
  } else {
    draft.set("zero_optimization.stage", plan.setup.stage, kWhy, DeepSpeedConfig().stage);
  }
}

}  // namespace

EmittedConfig emit_config(const SwapPlan& plan, const std::string& config_json,
                          const bench::DriveTuning* measured) {
  ConfigDraft draft(base_config(plan, config_json, measured));
  set_stage(plan, draft);
  set_parameter_buffers(plan, draft);
  set_optimizer_buffers(plan, draft);
  if (swaps_anything(plan)) {
    if (measured == nullptr) {
      set_paths(plan, draft);
    }
    set_aio(draft);
    if (measured != nullptr) {
      set_tuned_paths(plan, *measured, draft);
    }
  }
  set_budgets(plan, draft);
  set_states(plan, draft);
  return EmittedConfig{draft.document(), document_text(draft.document()), draft.rows()};
}

}  // namespace penstock::cli

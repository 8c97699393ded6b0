#include "bindings/deepspeed/deepspeed_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "alloc/lower_case.h"
#include "bindings/deepspeed/config_value.h"
#include "bindings/deepspeed/deepspeed_keys.h"
#include "bindings/deepspeed/optimizer_states.h"
#include "bindings/inventory/json_document.h"

namespace penstock {
namespace {

using nlohmann::json;

// DeepSpeed's default for the optimizer; for parameters it is 5, the struct's own.
constexpr std::uint64_t kOptimizerBuffers = 4;

void read_paths(ConfigSection& section, OffloadConfig& offload) {
  std::vector<std::string>& paths = offload.nvme_paths;
  const json* found = section.given("nvme_path");
  if (found == nullptr) {
    return;
  }
  const auto refuse = [&section, found] {
    section.refuse("nvme_path", fmt::format("is {}; a path or a list of paths is allowed",
                                            describe_json(*found)));
  };
  if (found->is_string()) {
    const std::string& text = found->get_ref<const std::string&>();
    const bool is_joined = text.find(';') != std::string::npos;
    offload.path_form = is_joined ? OffloadConfig::PathForm::kJoined : offload.path_form;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(';', begin), text.size());
      if (end > begin) {
        paths.push_back(text.substr(begin, end - begin));
      }
      begin = end + 1;
    }
  } else if (found->is_array()) {
    offload.path_form = OffloadConfig::PathForm::kList;
    for (const json& path : *found) {
      if (!path.is_string() || path.get_ref<const std::string&>().empty()) {
        refuse();
        return;
      }
      paths.push_back(path.get<std::string>());
    }
  } else {
    refuse();
  }
}

constexpr std::string_view kDeepSpeed = "DeepSpeed";
constexpr const char* kPassesKey = "gradient_accumulation_steps";
constexpr std::string_view kIgnores = "DeepSpeed ignores it";
constexpr std::string_view kRefuses = "DeepSpeed refuses the file";

// What both kinds of offloading have.
void read_offload(ConfigSection& section, OffloadConfig& offload) {
  section.warn_of_others(kDeepSpeed, kRefuses);
  std::size_t device = 0;
  section.read_choice("device", device);
  offload.device = static_cast<OffloadDevice>(device);
  read_paths(section, offload);
  section.read_flag("pin_memory", offload.pin_memory);
  section.read_count("buffer_count", offload.buffer_count);
}

std::optional<OffloadConfig> read_offload_param(ConfigSection& zero) {
  std::optional<ConfigSection> section = zero.section("offload_param");
  if (!section) {
    return std::nullopt;
  }
  OffloadConfig offload;
  read_offload(*section, offload);
  section->read_count("buffer_size", offload.buffer_size);
  section->read_count("max_in_cpu", offload.max_in_cpu);
  return offload;
}

std::optional<OffloadConfig> read_offload_optimizer(ConfigSection& zero) {
  std::optional<ConfigSection> section = zero.section("offload_optimizer");
  if (!section) {
    return std::nullopt;
  }
  OffloadConfig offload;
  offload.buffer_count = kOptimizerBuffers;
  read_offload(*section, offload);
  section->read_flag("pipeline_read", offload.pipeline_read);
  section->read_flag("pipeline_write", offload.pipeline_write);
  section->read_flag("fast_init", offload.fast_init);
  section->read_number("ratio", offload.ratio);
  return offload;
}

// The names that both keys had before DeepSpeed 0.3: a flag that means the CPU.
void read_deprecated_offload(ConfigSection& zero, std::string_view key,
                             std::optional<OffloadConfig>& offload) {
  bool flag = false;
  zero.read_flag(key, flag);
  if (flag && !offload) {
    offload.emplace().device = OffloadDevice::kCpu;
  }
}

// `stage3_…` is an alias of DeepSpeed's: its field lacks that, and its model takes both names.
void read_stage3(ConfigSection& zero, std::string_view alias, std::uint64_t& value) {
  zero.read_count(alias, value);
  zero.read_count(alias.substr(kStage3Prefix.size()), value);
}

void read_zero(ConfigSection& zero, DeepSpeedConfig& config) {
  std::uint64_t stage = 0;
  zero.read_count("stage", stage);
  config.stage = static_cast<std::uint32_t>(stage);
  zero.warn_of_others(kDeepSpeed, kRefuses);
  config.offload_param = read_offload_param(zero);
  config.offload_optimizer = read_offload_optimizer(zero);
  read_deprecated_offload(zero, "cpu_offload_param", config.offload_param);
  read_deprecated_offload(zero, "cpu_offload", config.offload_optimizer);
  zero.read_count("sub_group_size", config.sub_group_size);
  zero.read_count("reduce_bucket_size", config.reduce_bucket_size);
  zero.refuse_second_names(kDeepSpeed);
  read_stage3(zero, "stage3_prefetch_bucket_size", config.stage3_prefetch_bucket_size);
  read_stage3(zero, "stage3_max_live_parameters", config.stage3_max_live_parameters);
  read_stage3(zero, "stage3_max_reuse_distance", config.stage3_max_reuse_distance);
  read_stage3(zero, "stage3_param_persistence_threshold",
              config.stage3_param_persistence_threshold);
}

void read_aio(ConfigSection& aio, AioConfig& config) {
  aio.warn_of_others(kDeepSpeed, kIgnores);
  aio.read_count("block_size", config.block_size);
  aio.read_count("queue_depth", config.queue_depth);
  aio.read_count("intra_op_parallelism", config.intra_op_parallelism);
  aio.read_flag("single_submit", config.single_submit);
  aio.read_flag("overlap_events", config.overlap_events);
  aio.read_flag("use_gds", config.use_gds);
}

bool is_enabled(ConfigSection& top, std::string_view key) {
  bool enabled = false;
  if (std::optional<ConfigSection> section = top.section(key)) {
    section->read_flag("enabled", enabled);
  }
  return enabled;
}

// DeepSpeed reads the older name only where the newer one is absent or null.
std::string_view bf16_section(ConfigSection& top) {
  return top.section("bf16").has_value() ? "bf16" : "bfloat16";
}

void warn_within(ConfigSection& top, std::string_view key, std::string_view consequence) {
  if (std::optional<ConfigSection> section = top.section(key)) {
    section->warn_of_others(kDeepSpeed, consequence);
  }
}

void read_dtypes(ConfigSection& top, DeepSpeedConfig& config) {
  warn_within(top, bf16_section(top), kRefuses);
  warn_within(top, "fp16", kRefuses);
  warn_within(top, "data_types", kIgnores);
  const bool bf16 = is_enabled(top, bf16_section(top));
  const bool fp16 = is_enabled(top, "fp16");
  if (bf16 && fp16) {
    top.refuse("fp16.enabled", "is true beside bf16.enabled; DeepSpeed takes one of them");
  } else if (bf16) {
    config.model_dtype = DType::kBF16;
  } else if (fp16) {
    config.model_dtype = DType::kF16;
  }
  std::string gradients;
  if (std::optional<ConfigSection> types = top.section("data_types")) {
    types->read_text("grad_accum_dtype", gradients);
    if (types->given("grad_accum_dtype") != nullptr) {
      const Result<DType> parsed = parse_dtype(gradients);
      if (!parsed) {
        types->refuse("grad_accum_dtype", parsed.error().message);
      } else {
        config.gradient_dtype = *parsed;
      }
    }
  }
}

// "auto" is the training script's. Batch sizes bear on bytes only as far as they say how many
// passes a step has.
void read_batches(ConfigSection& top, DeepSpeedConfig& config) {
  top.read_count(kPassesKey, config.gradient_accumulation_steps);
  top.read_count("train_batch_size", config.train_batch_size);
  top.read_count("train_micro_batch_size_per_gpu", config.micro_batch_size);
  const bool is_derived = config.train_batch_size != 0 && config.micro_batch_size != 0;
  for (const char* key : {"train_batch_size", "train_micro_batch_size_per_gpu"}) {
    config.has_batch_size = config.has_batch_size || top.has(key);
    top.reading().automatic.erase(key);
  }
  if (is_derived) {
    top.reading().automatic.erase(kPassesKey);
  }
}

bool is_false(const json* value) {
  return value != nullptr && value->is_boolean() && !value->get<bool>();
}

// What DeepSpeed passes on to the optimizer, unread.
const json* optimizer_param(ConfigSection& top, const char* key) {
  const json* const optimizer = top.given("optimizer");
  const json::json_pointer pointer = json::json_pointer("/params") / key;
  return optimizer != nullptr && optimizer->contains(pointer) ? &(*optimizer)[pointer] : nullptr;
}

// As DeepSpeed chooses where an optimizer is offloaded (runtime/engine.py:
// _configure_basic_optimizer). A script's own is refused unless it is that, or the file allows
// others.
bool has_cpu_adam(ConfigSection& top, const std::string& written_type) {
  if (written_type.empty()) {
    const json* const forced = top.given("zero_force_ds_cpu_optimizer");
    return forced == nullptr || is_truthy(*forced);
  }
  const std::string type = lower_case(written_type);
  const json* const torch = optimizer_param(top, "torch_adam");
  return (type == "adam" || type == "adamw") && (torch == nullptr || !is_truthy(*torch));
}

// Those of penstock/deepspeed/elementwise_step.py, as DeepSpeed names them: its own in any case,
// torch's as they are. A script's own is taken for one of them.
bool is_elementwise(const std::string& written_type) {
  constexpr std::array<std::string_view, 4> kOwn{"adam", "adamw", "lion", "adagrad"};
  constexpr std::array<std::string_view, 6> kTorch{"Adadelta", "Adamax",  "NAdam",
                                                   "RAdam",    "RMSprop", "SGD"};
  return written_type.empty() ||
         std::ranges::count(kOwn, std::string_view(lower_case(written_type))) != 0 ||
         std::ranges::count(kTorch, std::string_view(written_type)) != 0;
}

// Of a section that may have more keys than penstock knows.
bool has_flag(ConfigSection& top, std::string_view section, const char* key) {
  const json* const found = top.given(section);
  return found != nullptr && found->is_object() && found->contains(key) &&
         json_flag((*found)[key]).value_or(false);
}

// Whether DeepSpeed's own optimizer makes its states in the masters' type. Of Adam null is as if
// the key were not given.
bool states_follow(ConfigSection& top, bool is_adam) {
  const json* const fp32 = optimizer_param(top, "fp32_optimizer_states");
  const bool is_given = fp32 != nullptr && !(is_adam && fp32->is_null());
  return (is_given && !is_truthy(*fp32)) ||
         (is_adam && has_flag(top, bf16_section(top), "bf16_optimizer_states"));
}

// The flag for masters of 16 bits, and whether DeepSpeed takes it with the file's optimizer
// (runtime/base_optimizer.py: _configure_master_weights). A script's own may be the right one.
void read_narrow_masters(ConfigSection& top, DeepSpeedConfig& config) {
  const std::string_view bf16 = bf16_section(top);
  const bool of_bf16 = has_flag(top, bf16, "bf16_master_weights_and_grads");
  const bool of_fp16 = has_flag(top, "fp16", "fp16_master_weights_and_grads");
  config.narrow_masters_key = of_fp16   ? "fp16.fp16_master_weights_and_grads"
                              : of_bf16 ? fmt::format("{}.bf16_master_weights_and_grads", bf16)
                                        : "";
  config.master_element_bytes = of_bf16 || of_fp16 ? 2 : 4;
  config.steps_narrow_masters = config.optimizer_type.empty() || config.has_cpu_adam;
  config.keeps_narrow_states = !of_fp16 && has_flag(top, bf16, "bf16_optimizer_states");
}

// Masters have the gradients' type. So have the states of torch's optimizers, which know nothing of
// `fp32_optimizer_states`: DeepSpeed takes it away from torch's Adam.
void read_state_types(ConfigSection& top, DeepSpeedConfig& config) {
  read_narrow_masters(top, config);
  const std::string type = lower_case(config.optimizer_type);
  const bool is_own = config.has_cpu_adam || type == "lion" || type == "adagrad";
  const bool follow = !is_own || states_follow(top, config.has_cpu_adam);
  config.state_element_bytes = follow ? config.master_element_bytes : 4;
  // penstock/deepspeed/step_choice.py steps whole sub-groups of such.
  if (!config.narrow_masters_key.empty() ||
      (is_own && is_false(optimizer_param(top, "fp32_optimizer_states")))) {
    config.has_cpu_adam = false;
    config.is_elementwise = false;
  }
}

}  // namespace

DeepSpeedConfig read_deepspeed_config(ConfigSection& top) {
  DeepSpeedConfig config;
  top.warn_of_others(kDeepSpeed, kIgnores);
  const json* zero = top.given("zero_optimization");
  if (zero != nullptr && zero->is_boolean()) {
    config.stage = zero->get<bool>() ? 1 : 0;  // deprecated, but DeepSpeed still takes it
  } else if (std::optional<ConfigSection> section = top.section("zero_optimization")) {
    read_zero(*section, config);
  }
  if (std::optional<ConfigSection> aio = top.section("aio")) {
    read_aio(*aio, config.aio);
  }
  read_dtypes(top, config);
  read_batches(top, config);
  if (std::optional<ConfigSection> optimizer = top.section("optimizer")) {
    optimizer->read_text("type", config.optimizer_type);
  }
  config.has_cpu_adam = has_cpu_adam(top, config.optimizer_type);
  config.is_elementwise = is_elementwise(config.optimizer_type);
  read_state_types(top, config);
  const json* const optimizer = top.given("optimizer");
  if (optimizer != nullptr && optimizer->is_object()) {
    config.optimizer_states =
        states_of_optimizer(config.optimizer_type, optimizer->value("params", json::object()));
  }
  if (!config.is_elementwise) {
    for (OptimizerState& state : config.optimizer_states) {
      state.is_stepped = true;  // a whole sub-group comes and goes with all that it has
    }
  }
  return config;
}

}  // namespace penstock

#include "bindings/deepspeed/automatic_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "alloc/excerpt.h"
#include "bindings/deepspeed/deepspeed_keys.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 3> kTypeKeys{"bf16.enabled", "bfloat16.enabled",
                                                    "fp16.enabled"};
constexpr std::string_view kThresholdKey = "zero_optimization.stage3_param_persistence_threshold";
constexpr std::string_view kZeroSection = "zero_optimization.";
// transformers/integrations/deepspeed.py, HfTrainerDeepSpeedConfig.trainer_config_finalize().
constexpr std::uint64_t kThresholdPerHidden = 10;

void warn(Config& config, std::string_view key, std::string_view assumed) {
  config.warnings.push_back(
      {"assumed",
       fmt::format("{} is \"auto\", which the training script decides; planned with {}", key,
                   assumed),
       std::string(key)});
}

Result<void> check_type(const Config& config, DType given) {
  if (config.deepspeed.is_given && config.deepspeed.held_dtype() != given) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("--dtype is {}, and the configuration holds parameters as {}; --dtype "
                             "says what \"auto\" stands for",
                             dtype_name(given), dtype_name(config.deepspeed.held_dtype())));
  }
  return {};
}

// Why model_dtype() is `dtype`: it is one of the three types that are trained in, even where the
// parameters are of others.
std::string_view said_by_inventory(const Inventory& inventory, DType dtype) {
  bool is_used = false;
  bool is_alone = true;
  for (const TensorInfo& tensor : inventory.tensors) {
    if (tensor.role == Role::kParam && tensor.elements() != 0) {
      is_used = is_used || tensor.dtype == dtype;
      is_alone = is_alone && tensor.dtype == dtype;
    }
  }
  return !is_used   ? "for no parameter of the inventory is of f32, bf16 or f16"
         : is_alone ? "the type of the inventory"
                    : "the commonest of f32, bf16 and f16 in the inventory";
}

Result<void> settle_type(Config& config, const Inventory& inventory, std::optional<DType> given,
                         const std::optional<TypeSource>& launched) {
  const auto automatic = std::ranges::find_if(kTypeKeys, [&config](std::string_view key) {
    return config.automatic.contains(std::string(key));
  });
  if (automatic == kTypeKeys.end() || config.deepspeed.model_dtype) {
    return given ? check_type(config, *given) : Result<void>();
  }
  const DType dtype = given ? *given : launched ? launched->dtype : model_dtype(inventory);
  if (dtype != DType::kF32) {
    config.deepspeed.model_dtype = dtype;
  }
  const std::string assumed = fmt::format(
      "{}, {}; --dtype says otherwise", dtype_name(dtype),
      launched ? std::string_view(launched->said_by) : said_by_inventory(inventory, dtype));
  if (!given && launched && !launched->unsaid.empty()) {
    config.warnings.push_back(
        {"assumed",
         fmt::format("{}, and the training script may say it; planned with {}", launched->unsaid,
                     assumed),
         std::string(*automatic)});
  } else if (!given) {
    warn(config, *automatic, assumed);
  }
  return {};
}

bool is_matrix(const TensorInfo& tensor, std::initializer_list<std::string_view> ends) {
  const std::string name = "." + tensor.name;
  return tensor.shape.size() == 2 &&
         std::ranges::any_of(ends, [&name](std::string_view end) { return name.ends_with(end); });
}

// Whose rows are as wide as the model. GPT-2's and GPT-J's is `wte`; T5's and BART's `shared`.
const TensorInfo* embedding(const Inventory& inventory) {
  const auto found = std::ranges::find_if(inventory.tensors, [](const TensorInfo& tensor) {
    return is_matrix(tensor, {".wte.weight", ".shared.weight"}) ||
           (tensor.shape.size() == 2 && tensor.name.find("embed") != std::string::npos);
  });
  return found == inventory.tensors.end() ? nullptr : &*found;
}

// What widens a narrower embedding to the model: ALBERT's, ELECTRA's, DeBERTa's and OPT's.
const TensorInfo* widening(const Inventory& inventory) {
  const auto found = std::ranges::find_if(inventory.tensors, [](const TensorInfo& tensor) {
    return is_matrix(tensor, {".embedding_hidden_mapping_in.weight", ".embeddings_project.weight",
                              ".embeddings.embed_proj.weight", ".decoder.project_in.weight"});
  });
  return found == inventory.tensors.end() ? nullptr : &*found;
}

// transformers takes the hidden size from the model's config, which an inventory lacks.
void settle_threshold(Config& config, const Inventory& inventory) {
  std::uint64_t& threshold = config.deepspeed.stage3_param_persistence_threshold;
  const TensorInfo* const wide = widening(inventory);
  const TensorInfo* const tensor = wide != nullptr ? wide : embedding(inventory);
  if (tensor == nullptr) {
    warn(config, kThresholdKey, fmt::format("DeepSpeed's default, {}", threshold));
    return;
  }
  threshold = kThresholdPerHidden * tensor->shape[wide != nullptr ? 0 : 1];
  warn(
      config, kThresholdKey,
      fmt::format("{}, 10 x the hidden size as {} has it; Trainer takes that of the model's config",
                  threshold, excerpt(tensor->name)));
}

// The other name of a value of ZeRO, with and without `stage3_`, where the file has a number there.
// DeepSpeed passes over an "auto" and takes that.
std::optional<std::string> said_by_other_name(const Config& config, std::string_view key) {
  if (!key.starts_with(kZeroSection)) {
    return std::nullopt;
  }
  const std::string_view name = key.substr(kZeroSection.size());
  std::string other = name.starts_with(kStage3Prefix)
                          ? fmt::format("{}{}", kZeroSection, name.substr(kStage3Prefix.size()))
                          : fmt::format("{}{}{}", kZeroSection, kStage3Prefix, name);
  return config.origins.contains(other) ? std::optional(std::move(other)) : std::nullopt;
}

}  // namespace

DType model_dtype(const Inventory& inventory) noexcept {
  std::array<std::pair<DType, std::uint64_t>, 3> counts{
      {{DType::kF32, 0}, {DType::kBF16, 0}, {DType::kF16, 0}}};
  for (const TensorInfo& tensor : inventory.tensors) {
    for (auto& [dtype, elements] : counts) {
      elements += tensor.role == Role::kParam && tensor.dtype == dtype ? tensor.elements() : 0;
    }
  }
  return std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; })
      ->first;
}

Result<void> settle_automatic_values(Config& config, const Inventory& inventory,
                                     std::optional<DType> given,
                                     const std::optional<TypeSource>& launched) {
  if (Result<void> settled = settle_type(config, inventory, given, launched); !settled) {
    return settled;
  }
  for (const std::string& key : config.automatic) {
    if (const std::optional<std::string> other = said_by_other_name(config, key)) {
      warn(config, key,
           fmt::format("what {} says; DeepSpeed refuses the file once both are numbers", *other));
    } else if (key == kThresholdKey) {
      settle_threshold(config, inventory);
    } else if (key == "gradient_accumulation_steps") {
      warn(config, key, "1: each further pass of a step reads the parameters again");
    } else if (std::ranges::find(kTypeKeys, key) == kTypeKeys.end()) {
      warn(config, key, "DeepSpeed's default");
    }
  }
  return {};
}

}  // namespace penstock

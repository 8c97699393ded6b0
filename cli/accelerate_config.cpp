#include "cli/accelerate_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "alloc/excerpt.h"
#include "alloc/lower_case.h"
#include "bindings/deepspeed/config_section.h"
#include "bindings/deepspeed/deepspeed_keys.h"
#include "bindings/inventory/input_file.h"
#include "bindings/inventory/json_document.h"
#include "cli/accelerate_keys.h"
#include "cli/rank_count.h"
#include "cli/yaml_document.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

// `accelerate config` writes half a kilobyte.
constexpr std::uint64_t kYamlBytesMax = 64ULL << 10;
constexpr std::uint64_t kStageDefault = 2;

// The keys of `deepspeed_config`, with accelerate's defaults.
struct DeepSpeedKeys {
  std::string file;
  std::uint64_t stage = kStageDefault;
  std::size_t optimizer_device = 0;
  std::size_t param_device = 0;
  std::string optimizer_path = "none";
  std::string param_path = "none";
  std::optional<std::uint64_t> accumulation;
  std::optional<double> clipping;
  bool saves_16bit = false;
};

void warn(ConfigReading& reading, std::string key, std::string text) {
  reading.warnings.push_back({"accelerate", std::move(text), std::move(key)});
}

// accelerate compares the text with "true", so that it may be written with quotes.
bool is_true(ConfigSection& section, std::string_view key) {
  const json* found = section.given(key);
  return found != nullptr &&
         (found->is_string() ? lower_case(found->get<std::string>()) == "true" : *found == true);
}

DeepSpeedKeys read_deepspeed_keys(ConfigSection& section) {
  DeepSpeedKeys keys;
  section.warn_of_others("accelerate", "accelerate ignores it");
  section.read_text("deepspeed_config_file", keys.file);
  if (keys.file == "none") {  // accelerate's own word for no file
    keys.file.clear();
  }
  section.read_count("zero_stage", keys.stage);
  section.read_choice("offload_optimizer_device", keys.optimizer_device);
  section.read_choice("offload_param_device", keys.param_device);
  section.read_text("offload_optimizer_nvme_path", keys.optimizer_path);
  section.read_text("offload_param_nvme_path", keys.param_path);
  if (section.given("gradient_accumulation_steps") != nullptr) {
    section.read_count("gradient_accumulation_steps", keys.accumulation.emplace());
  }
  if (section.given("gradient_clipping") != nullptr) {
    section.read_number("gradient_clipping", keys.clipping.emplace());
  }
  keys.saves_16bit = is_true(section, "zero3_save_16bit_model");
  return keys;
}

ordered_json offload_json(std::size_t device, const std::string& path) {
  ordered_json offload{{"device", kDeviceNames[device]}};
  if (kDeviceNames[device] == "nvme") {
    offload["nvme_path"] = path;
  }
  return offload;
}

// DeepSpeedPlugin.__post_init__() and set_mixed_precision(), less what no plan reads.
std::string built_json(const DeepSpeedKeys& keys, const std::optional<std::string>& precision) {
  ordered_json built{{"train_batch_size", "auto"}, {"train_micro_batch_size_per_gpu", "auto"}};
  built["gradient_accumulation_steps"] =
      keys.accumulation ? ordered_json(*keys.accumulation) : ordered_json("auto");
  built["zero_optimization"] = {
      {"stage", keys.stage},
      {"offload_optimizer", offload_json(keys.optimizer_device, keys.optimizer_path)},
      {"offload_param", offload_json(keys.param_device, keys.param_path)},
      {"stage3_gather_16bit_weights_on_model_save", keys.saves_16bit}};
  if (!keys.clipping || *keys.clipping != 0) {
    built["gradient_clipping"] =
        keys.clipping ? ordered_json(*keys.clipping) : ordered_json("auto");
  }
  if (!precision) {
    built["bf16"] = {{"enabled", "auto"}};
    built["fp16"] = {{"enabled", "auto"}};
    return built.dump();
  }
  built["bf16"] = {{"enabled", *precision == "bf16" || *precision == "fp8"}};
  built["fp16"] = {{"enabled", *precision == "fp16"}};
  if (*precision == "fp16") {
    built["fp16"]["auto_cast"] = true;
  }
  return built.dump();
}

// `accelerate launch` hands devices on in the environment, and forgets these two.
void warn_of_lost_path(ConfigReading& reading, std::string_view whose, std::size_t device) {
  if (kDeviceNames[device] == "nvme") {
    const std::string variable = fmt::format("ACCELERATE_DEEPSPEED_OFFLOAD_{}_NVME_PATH", whose);
    const std::string key = fmt::format("offload_{}_nvme_path", lower_case(std::string(whose)));
    warn(reading, "deepspeed_config." + key,
         fmt::format("accelerate launch does not pass {} on: DeepSpeed swaps to the directory "
                     "\"none\" unless {} is set or a deepspeed_config_file says it",
                     key, variable));
  }
}

// What DeepSpeedPlugin._deepspeed_config_checks() raises ValueError for.
void warn_of_refusals(ConfigReading& reading, const json& document) {
  const json& section = document["deepspeed_config"];
  for (const std::string_view key : accelerate_keys_beside_file()) {
    const bool is_inside = section.contains(std::string(key));
    const bool is_precision = key == "mixed_precision" && document.contains("mixed_precision") &&
                              !document["mixed_precision"].is_null();
    if (is_inside || is_precision) {
      warn(reading, is_inside ? fmt::format("deepspeed_config.{}", key) : std::string(key),
           fmt::format("accelerate refuses {} beside deepspeed_config_file; what it says belongs "
                       "into that file",
                       key));
    }
  }
}

// Where the file is, or nothing and a problem.
std::string find_deepspeed_file(const std::string& named, const std::string& yaml,
                                ConfigSection& section) {
  std::error_code error;
  const fs::path here = fs::absolute(named, error);
  const fs::path beside = fs::absolute(yaml, error).parent_path() / named;
  if (fs::exists(here, error)) {
    return named;
  }
  if (fs::exists(beside, error)) {
    return (fs::path(yaml).parent_path() / named).string();
  }
  section.refuse(
      "deepspeed_config_file",
      here == beside
          ? fmt::format("is {}, which does not exist", excerpt(here.string()))
          : fmt::format("is {}, and there is neither {} (by the working directory) nor "
                        "{} (beside the YAML)",
                        excerpt(named), excerpt(here.string()), excerpt(beside.string())));
  return {};
}

// `no` without quotes is false to YAML. Configurations before accelerate 0.6 have `fp16: true`.
std::optional<std::string> read_precision(ConfigSection& top) {
  constexpr std::array<std::string_view, 4> kNames{"no", "fp16", "bf16", "fp8"};
  const json* found = top.given("mixed_precision");
  if (found == nullptr) {
    return is_true(top, "fp16") ? std::optional<std::string>("fp16") : std::nullopt;
  }
  const std::string text = found->is_string() ? lower_case(found->get<std::string>()) : "";
  if (*found == false) {
    return "no";
  }
  if (std::ranges::find(kNames, text) == kNames.end()) {
    top.refuse("mixed_precision",
               fmt::format("is {}; no, fp16, bf16 and fp8 are allowed", describe_json(*found)));
    return std::nullopt;
  }
  return text;
}

DType type_of(std::string_view precision) {
  return precision == "no"     ? DType::kF32
         : precision == "fp16" ? DType::kF16
                               : DType::kBF16;  // with fp8, too: bf16 is what it casts from
}

std::optional<std::uint32_t> read_ranks(ConfigSection& top, std::string_view key) {
  if (top.given(key) == nullptr) {
    return std::nullopt;
  }
  std::uint64_t count = 0;
  top.read_count(key, count);
  if (count == 0 || count > kRanksMax) {
    top.refuse(key, fmt::format("is {}; 1 to {} are allowed", count, kRanksMax));
  }
  return static_cast<std::uint32_t>(count);
}

void check_distributed_type(ConfigSection& top, const json& document) {
  std::string type;
  top.read_text("distributed_type", type);
  if (type.empty()) {
    warn(top.reading(), "distributed_type",
         "accelerate refuses a file without distributed_type; DEEPSPEED is meant here");
  } else if (type != "DEEPSPEED" && !document.contains("deepspeed_config")) {
    top.refuse("distributed_type",
               fmt::format("is {}: accelerate does not use DeepSpeed then", excerpt(type)));
  } else if (type != "DEEPSPEED") {
    warn(top.reading(), "distributed_type",
         fmt::format("distributed_type is {}: accelerate does not use DeepSpeed unless it is "
                     "launched with --use_deepspeed",
                     excerpt(type)));
  }
}

// The type that "auto" stands for, where something says it.
std::optional<TypeSource> type_source(const std::optional<std::string>& precision, bool has_file,
                                      const std::string& path) {
  if (precision) {
    return TypeSource{type_of(*precision), fmt::format("mixed_precision of {}", path)};
  }
  if (has_file) {  // whose "auto" transformers replaces
    return std::nullopt;
  }
  return TypeSource{DType::kF32, "what accelerate takes then",
                    fmt::format("mixed_precision is not in {}", path)};
}

AccelerateConfig read_accelerate(ConfigSection& top, const json& document,
                                 const std::string& path) {
  AccelerateConfig config;
  check_distributed_type(top, document);
  top.warn_of_others("accelerate", "accelerate refuses the file");
  config.num_processes = read_ranks(top, "num_processes");
  config.num_machines = read_ranks(top, "num_machines").value_or(1);
  const std::optional<std::string> precision = read_precision(top);
  const json empty = json::object();
  const ConfigTable& table = *kAccelerateTable.find("deepspeed_config")->inside;
  ConfigSection section =
      top.section("deepspeed_config")
          .value_or(ConfigSection(empty, "deepspeed_config", top.reading(), table));
  const DeepSpeedKeys keys = read_deepspeed_keys(section);
  config.type = type_source(precision, !keys.file.empty(), path);
  if (!keys.file.empty()) {
    config.deepspeed_file = find_deepspeed_file(keys.file, path, section);
    warn_of_refusals(top.reading(), document);
  } else {
    config.deepspeed_json = built_json(keys, precision);
    warn_of_lost_path(top.reading(), "OPTIMIZER", keys.optimizer_device);
    warn_of_lost_path(top.reading(), "PARAM", keys.param_device);
  }
  return config;
}

}  // namespace

Result<AccelerateConfig> load_accelerate_config(const std::string& path) {
  const Result<std::string> text = read_text_file(path, kYamlBytesMax);
  if (!text) {
    return text.error();
  }
  Result<json> document = parse_yaml(*text, path);
  if (!document) {
    return std::move(document).error();
  }
  if (!document->is_object() ||
      !(document->contains("deepspeed_config") || document->contains("distributed_type"))) {
    return fault(
        Fault::kConfiguration,
        fmt::format("{} is no configuration of accelerate: it has no deepspeed_config", path));
  }
  ConfigReading reading{path, {}, std::nullopt, {}, {}};
  ConfigSection top(*document, "", reading, kAccelerateTable);
  AccelerateConfig config = read_accelerate(top, *document, path);
  if (reading.problem) {
    return std::move(*reading.problem);
  }
  config.warnings = std::move(reading.warnings);
  return config;
}

}  // namespace penstock::cli

#include "bindings/deepspeed/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "bindings/deepspeed/config_section.h"
#include "bindings/deepspeed/deepspeed_config.h"
#include "bindings/deepspeed/deepspeed_keys.h"
#include "bindings/deepspeed/penstock_config.h"
#include "bindings/deepspeed/refused_settings.h"
#include "bindings/inventory/input_file.h"
#include "bindings/inventory/json_document.h"
#include "swap/plan/saturating.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::uint64_t kConfigBytesMax = 16ULL << 20;

std::optional<Error> apply_environment(Config& config) {
  const char* engine = std::getenv("PENSTOCK_ENGINE");
  if (engine == nullptr || *engine == '\0') {
    return std::nullopt;
  }
  const Result<EngineKind> kind = parse_storing_engine(engine);
  if (!kind) {
    return fault(Fault::kConfiguration,
                 fmt::format("the environment's PENSTOCK_ENGINE={} cannot be used: {}", engine,
                             kind.error().message));
  }
  config.penstock.engine = *kind;
  config.origins["penstock.engine"] = "PENSTOCK_ENGINE";
  return std::nullopt;
}

std::vector<std::string> nvme_paths(const std::optional<OffloadConfig>& offload) {
  return offload && offload->device == OffloadDevice::kNvme ? offload->nvme_paths
                                                            : std::vector<std::string>();
}

std::uint64_t bytes_of_buffer(const DeepSpeedConfig& config) {
  return multiply_saturating(config.offload_param->buffer_size, dtype_bytes(config.held_dtype()));
}

// What the buffers for parameters take on NVMe (buffer_count x buffer_size): memory that the user
// has granted.
std::uint64_t bytes_of_buffers(const DeepSpeedConfig& config) {
  const bool on_nvme = config.stage == 3 && config.offload_param &&
                       config.offload_param->device == OffloadDevice::kNvme;
  return on_nvme ? multiply_saturating(config.offload_param->buffer_count, bytes_of_buffer(config))
                 : 0;
}

}  // namespace

std::vector<PathConfig> Config::paths() const {
  if (!penstock.paths.empty()) {
    return penstock.paths;
  }
  std::vector<std::string> names;
  for (const auto* const offload : {&deepspeed.offload_param, &deepspeed.offload_optimizer}) {
    for (std::string& path : nvme_paths(*offload)) {
      if (std::ranges::find(names, path) == names.end()) {
        names.push_back(std::move(path));
      }
    }
  }
  std::vector<PathConfig> paths;
  for (std::string& name : names) {
    paths.push_back({std::move(name), std::nullopt, std::nullopt});
  }
  return paths;
}

bool Config::has_path_for_each() const {
  return penstock.paths.empty() && nvme_paths(deepspeed.offload_param).size() == 1 &&
         nvme_paths(deepspeed.offload_optimizer).size() == 1 && paths().size() == 2;
}

std::string_view Config::written_name(std::string_view alias) const {
  const std::string_view field = alias.substr(kStage3Prefix.size());
  return origins.contains(fmt::format("zero_optimization.{}", field)) ? field : alias;
}

EngineConfig Config::engine_config() const {
  EngineConfig engine = penstock;
  engine.paths = paths();
  engine.memory_bytes = bytes_of_buffers(deepspeed);
  if (deepspeed.offload_param && deepspeed.offload_param->device == OffloadDevice::kNvme) {
    engine.outliers = {bytes_of_buffer(deepspeed), "buffer_size"};
  }
  if (deepspeed.aio.use_gds) {
    engine.direct_storage_setting = "aio.use_gds";
  }
  return engine;
}

Result<Config> parse_config(std::string_view text, const std::string& origin) {
  Result<json> parsed = parse_commented_json(text, origin, Fault::kConfiguration);
  if (!parsed) {
    return std::move(parsed).error();
  }
  if (!parsed->is_object()) {
    return fault(Fault::kConfiguration, fmt::format("{} is {}, not a DeepSpeed configuration (an "
                                                    "object)",
                                                    origin, describe_json(*parsed)));
  }
  ConfigReading reading{origin, {}, std::nullopt, {}, {}};
  ConfigSection top(*parsed, "", reading, kDeepSpeedTable);
  Config config;
  config.deepspeed = read_deepspeed_config(top);
  config.deepspeed.refused = refused_settings(*parsed);
  config.deepspeed.is_given = parsed->size() > parsed->count("penstock") + parsed->count("$schema");
  PenstockConfig block = read_penstock_config(top);
  config.penstock = std::move(block.engine);
  config.states = std::move(block.states);
  if (reading.problem) {
    return std::move(*reading.problem);
  }
  config.origins = std::move(reading.origins);
  config.automatic = std::move(reading.automatic);
  config.warnings = std::move(reading.warnings);
  if (std::optional<Error> problem = apply_environment(config)) {
    return std::move(*problem);
  }
  return config;
}

Result<Config> load_config(const std::string& path) {
  Result<std::string> text = read_text_file(path, kConfigBytesMax);
  if (!text) {
    return std::move(text).error();
  }
  Result<Config> config = parse_config(*text, path);
  if (!config && config.error().path.empty()) {
    Error error = std::move(config).error();
    error.path = path;
    return error;
  }
  return config;
}

}  // namespace penstock

#include "cli/config_source.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "bindings/inventory/input_file.h"

namespace penstock::cli {
namespace {

constexpr std::uint64_t kConfigBytesMax = 16ULL << 20;

Result<ConfigSource> read_json(const std::string& path) {
  Result<std::string> text = read_text_file(path, kConfigBytesMax);
  if (!text) {
    return std::move(text).error();
  }
  return ConfigSource{std::move(*text), path, std::nullopt};
}

}  // namespace

Result<Config> ConfigSource::parse() const {
  Result<Config> config =
      origin.empty() ? parse_config("{}", "no file") : parse_config(json, origin);
  if (config && accelerate &&
      !nlohmann::json::parse(json, nullptr, true, true).contains("zero_optimization")) {
    config->warnings.insert(
        config->warnings.begin(),
        {"accelerate", fmt::format("accelerate refuses {}, which has no zero_optimization", origin),
         "zero_optimization"});
  }
  if (config && accelerate) {
    config->warnings.insert(config->warnings.begin(), accelerate->warnings.begin(),
                            accelerate->warnings.end());
  }
  if (!config && config.error().path.empty()) {
    Error error = std::move(config).error();
    error.path = origin;
    return error;
  }
  return config;
}

Result<ConfigSource> read_config_source(const std::string& path) {
  if (path.empty()) {
    return ConfigSource{};
  }
  if (!path.ends_with(".yaml") && !path.ends_with(".yml")) {
    return read_json(path);
  }
  Result<AccelerateConfig> accelerate = load_accelerate_config(path);
  if (!accelerate) {
    return std::move(accelerate).error();
  }
  Result<ConfigSource> source = accelerate->deepspeed_file.empty()
                                    ? ConfigSource{accelerate->deepspeed_json, path, std::nullopt}
                                    : read_json(accelerate->deepspeed_file);
  if (source) {
    source->accelerate = std::move(*accelerate);
  }
  return source;
}

}  // namespace penstock::cli

#include "cli/configuration_listing.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "bindings/deepspeed/penstock_keys.h"
#include "cli/optional_json.h"
#include "cli/text_table.h"
#include "io/engine_probe.h"

namespace penstock::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kDevices{"none", "cpu", "nvme"};
constexpr std::array<std::string_view, 3> kIntegrity{"off", "sampled", "full"};

using Values = std::vector<std::pair<std::string, ordered_json>>;

template <class Enum, std::size_t N>
std::string_view name_in(const std::array<std::string_view, N>& names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

void append_offload(const std::string& key, const std::optional<OffloadConfig>& offload,
                    bool of_parameters, Values& values) {
  const std::string prefix = "zero_optimization." + key;
  if (!offload) {
    values.emplace_back(prefix, nullptr);
    return;
  }
  const auto append = [&](const char* name, ordered_json value) {
    values.emplace_back(fmt::format("{}.{}", prefix, name), std::move(value));
  };
  append("device", name_in(kDevices, offload->device));
  append("nvme_path", offload->nvme_paths.size() == 1 ? ordered_json(offload->nvme_paths.front())
                                                      : ordered_json(offload->nvme_paths));
  append("pin_memory", offload->pin_memory);
  append("buffer_count", offload->buffer_count);
  if (of_parameters) {
    append("buffer_size", offload->buffer_size);
    append("max_in_cpu", offload->max_in_cpu);
  } else {
    append("pipeline_read", offload->pipeline_read);
    append("pipeline_write", offload->pipeline_write);
    append("fast_init", offload->fast_init);
    append("ratio", offload->ratio);
  }
}

void append_zero(const Config& whole, Values& values) {
  const DeepSpeedConfig& config = whole.deepspeed;
  values.emplace_back("zero_optimization.stage", config.stage);
  append_offload("offload_param", config.offload_param, true, values);
  append_offload("offload_optimizer", config.offload_optimizer, false, values);
  const auto append = [&values](std::string_view name, std::uint64_t value) {
    values.emplace_back(fmt::format("zero_optimization.{}", name), value);
  };
  const auto append_stage3 = [&](std::string_view alias, std::uint64_t value) {
    append(whole.written_name(alias), value);
  };
  append("reduce_bucket_size", config.reduce_bucket_size);
  append("sub_group_size", config.sub_group_size);
  append_stage3("stage3_prefetch_bucket_size", config.stage3_prefetch_bucket_size);
  append_stage3("stage3_max_live_parameters", config.stage3_max_live_parameters);
  append_stage3("stage3_max_reuse_distance", config.stage3_max_reuse_distance);
  append_stage3("stage3_param_persistence_threshold", config.stage3_param_persistence_threshold);
}

void append_deepspeed(const Config& whole, Values& values) {
  const DeepSpeedConfig& config = whole.deepspeed;
  values.emplace_back("aio.block_size", config.aio.block_size);
  values.emplace_back("aio.queue_depth", config.aio.queue_depth);
  values.emplace_back("aio.intra_op_parallelism", config.aio.intra_op_parallelism);
  values.emplace_back("aio.single_submit", config.aio.single_submit);
  values.emplace_back("aio.overlap_events", config.aio.overlap_events);
  values.emplace_back("aio.use_gds", config.aio.use_gds);
  const bool is_old = whole.origins.contains("bfloat16.enabled");
  values.emplace_back(is_old ? "bfloat16.enabled" : "bf16.enabled",
                      config.model_dtype == DType::kBF16);
  values.emplace_back("fp16.enabled", config.model_dtype == DType::kF16);
  values.emplace_back("data_types.grad_accum_dtype",
                      config.gradient_dtype ? ordered_json(dtype_name(*config.gradient_dtype))
                                            : ordered_json(nullptr));
  values.emplace_back("optimizer.type", config.optimizer_type.empty()
                                            ? ordered_json(nullptr)
                                            : ordered_json(config.optimizer_type));
}

ordered_json size_or_auto(const std::optional<std::uint64_t>& bytes) {
  return bytes ? ordered_json(*bytes) : ordered_json("auto");
}

ordered_json paths_json(const EngineConfig& config) {
  ordered_json list = ordered_json::array();
  for (const PathConfig& path : config.paths) {
    list.push_back({{"path", path.path},
                    {"weight", path.weight ? ordered_json(*path.weight) : ordered_json("auto")},
                    {"max_bytes", or_null(path.max_bytes)},
                    {"read_bytes_per_second", or_null(path.read_bytes_per_second)},
                    {"write_bytes_per_second", or_null(path.write_bytes_per_second)}});
  }
  return list;
}

void append_penstock(const EngineConfig& config, Values& values) {
  const auto append = [&values](const char* name, ordered_json value) {
    values.emplace_back(fmt::format("penstock.{}", name), std::move(value));
  };
  append("max_pinned_bytes", size_or_auto(config.max_pinned_bytes));
  append("ram_bytes", size_or_auto(config.ram_bytes));
  append("engine", engine_kind_name(config.engine));
  append("integrity", name_in(kIntegrity, config.integrity));
  append("mode", kModeNames[static_cast<std::size_t>(config.mode)]);
  append("size_classes",
         config.size_classes.empty() ? ordered_json("auto") : ordered_json(config.size_classes));
  append("paths", paths_json(config));
  ordered_json rules = ordered_json::array();
  for (const TensorRule& rule : config.tensors) {
    rules.push_back(ordered_json::parse(rule.text));
  }
  append("tensors", std::move(rules));
}

Values list_values(const Config& config) {
  Values values;
  append_zero(config, values);
  append_deepspeed(config, values);
  append_penstock(config.penstock, values);
  values.emplace_back("penstock.optimizer_states", state_format_name(config.states.narrow));
  values.emplace_back("penstock.fp32_states", config.states.fp32_patterns);
  return values;
}

std::string origin_of(const Config& config, const std::string& key) {
  const auto found = config.origins.find(key);
  return found == config.origins.end() ? "default" : found->second;
}

}  // namespace

std::string configuration_text(const Config& config) {
  TextTable table({{"key"}, {"value"}, {"origin"}});
  for (const auto& [key, value] : list_values(config)) {
    table.add({key, value.dump(), origin_of(config, key)});
  }
  return table.text();
}

std::string configuration_json(const Config& config) {
  ordered_json list = ordered_json::array();
  for (const auto& [key, value] : list_values(config)) {
    list.push_back({{"key", key}, {"value", value}, {"origin", origin_of(config, key)}});
  }
  const ordered_json document{{"schema", "penstock.config/1"}, {"values", std::move(list)}};
  return document.dump(1) + "\n";
}

}  // namespace penstock::cli

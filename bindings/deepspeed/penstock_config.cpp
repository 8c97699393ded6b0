#include "bindings/deepspeed/penstock_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "bindings/deepspeed/config_value.h"
#include "bindings/deepspeed/penstock_keys.h"
#include "bindings/inventory/json_document.h"

namespace penstock {
namespace {

using nlohmann::json;

// The list under `key`; an empty one where it is absent, "auto" or wrong.
const json& list_under(ConfigSection& block, std::string_view key, std::string_view allowed) {
  static const json kEmpty = json::array();
  const json* found = block.given(key);
  if (found == nullptr) {
    return kEmpty;
  }
  if (!found->is_array()) {
    block.refuse(key, fmt::format("is {}; {} is allowed", describe_json(*found), allowed));
    return kEmpty;
  }
  return *found;
}

void read_size_classes(ConfigSection& block, std::vector<std::uint64_t>& classes) {
  for (const json& entry : list_under(block, "size_classes", "\"auto\" or a list of sizes")) {
    const std::optional<std::uint64_t> bytes = json_bytes(entry);
    if (!bytes || *bytes == 0 || *bytes > kSlotBytesMax) {
      block.refuse("size_classes", fmt::format("has {}; sizes such as \"12MiB\" are allowed",
                                               describe_json(entry)));
      return;
    }
    classes.push_back(*bytes);
  }
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
}

void read_weight(ConfigSection& entry, std::optional<double>& weight) {
  if (entry.given("weight") == nullptr) {
    return;
  }
  double number = 0;
  entry.read_number("weight", number);
  if (!std::isfinite(number) || number <= 0) {
    entry.refuse("weight", "is not above 0; \"auto\" or a number above 0 is allowed");
  }
  weight = number;
}

void read_paths(ConfigSection& block, std::vector<PathConfig>& paths) {
  const json& entries =
      list_under(block, "paths", "a list of {\"path\", \"weight\", \"max_bytes\"}");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string key = fmt::format("paths[{}]", i);
    PathConfig path;
    if (entries[i].is_string()) {
      path.path = entries[i].get<std::string>();
    } else if (entries[i].is_object()) {
      ConfigSection entry(entries[i], block.dotted(key), block.reading(), kPathTable);
      entry.refuse_others();
      entry.read_text("path", path.path);
      read_weight(entry, path.weight);
      entry.read_size("max_bytes", path.max_bytes);
      entry.read_size("read_bytes_per_second", path.read_bytes_per_second);
      entry.read_size("write_bytes_per_second", path.write_bytes_per_second);
    } else {
      block.refuse(
          key, fmt::format("is {}; an object with a path is allowed", describe_json(entries[i])));
    }
    if (path.path.empty()) {
      block.refuse(key, "has no path");
    }
    paths.push_back(std::move(path));
  }
}

TensorRule read_rule(ConfigSection& entry, const json& value) {
  TensorRule rule;
  rule.text = value.dump();
  entry.refuse_others();
  entry.read_text("match", rule.match);
  entry.read_size("min_bytes", rule.min_bytes);
  entry.read_size("max_bytes", rule.max_bytes);
  if (rule.min_bytes && rule.max_bytes && *rule.min_bytes > *rule.max_bytes) {
    entry.refuse("min_bytes",
                 "is larger than max_bytes of the same rule, which then matches nothing");
  }
  std::size_t place = kRulePlaceNames.size();
  entry.read_choice("place", place);
  if (place == kRulePlaceNames.size()) {
    entry.refuse("place", fmt::format("is missing; allowed: {}", fmt::join(kRulePlaceNames, ", ")));
    place = 0;
  }
  rule.place = static_cast<Place>(place);
  return rule;
}

void read_rules(ConfigSection& block, std::vector<TensorRule>& rules) {
  const json& entries = list_under(block, "tensors", "a list of {\"match\", \"place\"}");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string key = fmt::format("tensors[{}]", i);
    if (!entries[i].is_object()) {
      block.refuse(key,
                   fmt::format("is {}; an object such as {{\"match\": \"*.weight\", \"place\": "
                               "\"ram\"}} is allowed",
                               describe_json(entries[i])));
      return;
    }
    ConfigSection entry(entries[i], block.dotted(key), block.reading(), kRuleTable);
    rules.push_back(read_rule(entry, entries[i]));
  }
}

void read_states(ConfigSection& block, StateFormats& states) {
  auto narrow = static_cast<std::size_t>(states.narrow);
  block.read_choice("optimizer_states", narrow);
  states.narrow = static_cast<StateFormat>(narrow);
  for (const json& entry : list_under(block, "fp32_states", "a list of patterns")) {
    if (!entry.is_string() || entry.get_ref<const std::string&>().empty()) {
      block.refuse("fp32_states", fmt::format("has {}; patterns such as \"*embed*\" are allowed",
                                              describe_json(entry)));
      return;
    }
    states.fp32_patterns.push_back(entry.get<std::string>());
  }
}

// DeepSpeed ignores what it does not know at the top: without a word, a user's limit would not
// hold.
void read_misplaced(std::vector<PlanWarning>& warnings, std::vector<std::string>& unread) {
  for (PlanWarning& warning : warnings) {
    if (warning.code == "unknown-key" && kPenstockTable.find(warning.key) != nullptr) {
      warning.text = fmt::format("{} is a key of the penstock block, and is not read outside of it",
                                 warning.key);
      warning.nearest = fmt::format("penstock.{}", warning.key);
      unread.push_back(warning.text);
    }
  }
}

}  // namespace

Result<EngineKind> parse_storing_engine(std::string_view text) {
  Result<EngineKind> kind = parse_engine_kind(text);
  if (kind && !moves_bytes(*kind)) {
    return fault(Fault::kConfiguration,
                 fmt::format("'{}' moves nothing and is for measuring only, so that every tensor "
                             "swapped to it would be lost; choose auto, uring, aio or threads",
                             text));
  }
  return kind;
}

PenstockConfig read_penstock_config(ConfigSection& top) {
  PenstockConfig read;
  EngineConfig& config = read.engine;
  read_misplaced(top.reading().warnings, config.unread);
  std::optional<ConfigSection> block = top.section("penstock");
  if (!block) {
    // What is meant for the block would not be read, and nothing said of it.
    if (!top.has("penstock")) {
      top.refuse_misspelt("penstock");
      if (!top.has("zero_optimization")) {
        top.refuse_keys_of("penstock", kPenstockTable);
      }
    }
    return read;
  }
  block->refuse_others();
  block->read_size("max_pinned_bytes", config.max_pinned_bytes);
  block->read_size("ram_bytes", config.ram_bytes);
  std::string engine = "auto";
  block->read_text("engine", engine);
  const Result<EngineKind> kind = parse_storing_engine(engine);
  if (!kind) {
    block->refuse("engine", fmt::format("cannot be used: {}", kind.error().message));
  } else {
    config.engine = *kind;
  }
  auto integrity = static_cast<std::size_t>(config.integrity);
  block->read_choice("integrity", integrity);
  config.integrity = static_cast<IntegrityLevel>(integrity);
  auto mode = static_cast<std::size_t>(config.mode);
  block->read_choice("mode", mode);
  config.mode = static_cast<StoreMode>(mode);
  read_size_classes(*block, config.size_classes);
  read_paths(*block, config.paths);
  read_rules(*block, config.tensors);
  read_states(*block, read.states);
  return read;
}

}  // namespace penstock

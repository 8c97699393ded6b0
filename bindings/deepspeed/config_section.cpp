#include "bindings/deepspeed/config_section.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "alloc/check.h"
#include "alloc/excerpt.h"
#include "bindings/deepspeed/config_value.h"
#include "bindings/inventory/json_document.h"
#include "swap/plan/nearest_name.h"

namespace penstock {
namespace {

using nlohmann::json;

bool is_auto(const json& value) {
  return value.is_string() && value.get_ref<const std::string&>() == "auto";
}

}  // namespace

ConfigSection::ConfigSection(const json& object, std::string prefix, ConfigReading& reading,
                             const ConfigTable& table)
    : object_(object), prefix_(std::move(prefix)), reading_(reading), table_(table) {}

const ConfigKey& ConfigSection::key_of(std::string_view key, KeyKind kind) const {
  const ConfigKey* found = table_.find(key);
  PENSTOCK_CHECK(found != nullptr && found->kind == kind, "{} is read, and its table {}",
                 dotted(key), found == nullptr ? "lacks it" : "has it as another kind");
  return *found;
}

std::string ConfigSection::dotted(std::string_view key) const {
  return prefix_.empty() ? std::string(key) : fmt::format("{}.{}", prefix_, key);
}

void ConfigSection::refuse(std::string_view key, std::string_view what) {
  if (!reading_.problem) {
    reading_.problem = fault(Fault::kConfiguration, fmt::format("{} in {} {}", dotted(excerpt(key)),
                                                                reading_.origin, what));
    reading_.problem->path = reading_.origin;
  }
}

const json* ConfigSection::given_as(std::string_view key, KeyKind kind) {
  (void)key_of(key, kind);
  return given(key);
}

const json* ConfigSection::given(std::string_view key) {
  PENSTOCK_CHECK(table_.find(key) != nullptr, "{} is read, and its table lacks it", dotted(key));
  const auto found = object_.find(std::string(key));
  if (found == object_.end() || found->is_null()) {
    return nullptr;
  }
  if (is_auto(*found)) {
    if (!prefix_.starts_with("penstock")) {
      reading_.automatic.insert(dotted(key));
    }
    return nullptr;
  }
  reading_.origins[dotted(key)] = reading_.origin;
  return &*found;
}

void ConfigSection::read_flag(std::string_view key, bool& value) {
  const json* found = given_as(key, KeyKind::kFlag);
  if (found == nullptr) {
    return;
  }
  const std::optional<bool> flag = json_flag(*found);
  if (!flag) {
    refuse(key, fmt::format("is {}; true or false is allowed", describe_json(*found)));
    return;
  }
  value = *flag;
}

void ConfigSection::read_count(std::string_view key, std::uint64_t& value) {
  const json* found = given_as(key, KeyKind::kCount);
  if (found == nullptr) {
    return;
  }
  const std::optional<std::uint64_t> number = json_count(*found);
  const std::uint64_t maximum = key_of(key, KeyKind::kCount).maximum_or_all();
  if (!number || *number > maximum) {
    refuse(key, fmt::format("is {}; a whole number from 0 to {} is allowed", describe_json(*found),
                            maximum));
    return;
  }
  value = *number;
}

void ConfigSection::read_number(std::string_view key, double& value) {
  const json* found = given_as(key, KeyKind::kNumber);
  if (found == nullptr) {
    return;
  }
  const bool is_share = key_of(key, KeyKind::kNumber).is_share;
  const auto fits = [is_share](double number) { return !is_share || (number >= 0 && number <= 1); };
  if (!found->is_number() || !fits(found->get<double>())) {
    refuse(key, fmt::format("is {}; a number{} is allowed", describe_json(*found),
                            is_share ? " from 0 to 1" : ""));
    return;
  }
  value = found->get<double>();
}

void ConfigSection::read_text(std::string_view key, std::string& value) {
  const json* found = given_as(key, KeyKind::kText);
  if (found == nullptr) {
    return;
  }
  if (!found->is_string()) {
    refuse(key, fmt::format("is {}; a text is allowed", describe_json(*found)));
    return;
  }
  value = found->get<std::string>();
}

void ConfigSection::read_size(std::string_view key, std::optional<std::uint64_t>& value) {
  const json* found = given_as(key, KeyKind::kSize);
  if (found == nullptr) {
    return;
  }
  value = json_bytes(*found);
  if (!value) {
    refuse(key, fmt::format("is {}; a whole number of bytes or a size such as \"64MiB\" is allowed",
                            describe_json(*found)));
  } else if (*value == 0 && key_of(key, KeyKind::kSize).is_above_zero) {
    refuse(key, "is 0; above 0 is allowed, or leave it out");
  }
}

void ConfigSection::read_choice(std::string_view key, std::size_t& value) {
  const std::span<const std::string_view> names = key_of(key, KeyKind::kChoice).choices;
  const auto at = object_.find(std::string(key));
  if (at == object_.end() || at->is_null()) {
    return;
  }
  const std::string text = at->is_string() ? at->get<std::string>() : std::string();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (text == names[i]) {
      reading_.origins[dotted(key)] = reading_.origin;
      value = i;
      return;
    }
  }
  if (!is_auto(*at)) {
    refuse(key, fmt::format("is {}{}; allowed: {}", describe_json(*at), did_you_mean(text, names),
                            fmt::join(names, ", ")));
  }
}

std::optional<ConfigSection> ConfigSection::section(std::string_view key) {
  const ConfigTable* inside = key_of(key, KeyKind::kSection).inside;
  const auto found = object_.find(std::string(key));
  if (found == object_.end() || found->is_null()) {
    return std::nullopt;
  }
  if (!found->is_object()) {
    refuse(key, fmt::format("is {}; an object is allowed", describe_json(*found)));
    return std::nullopt;
  }
  return ConfigSection(*found, dotted(key), reading_, *inside);
}

void ConfigSection::warn_of_others(std::string_view program, std::string_view consequence) {
  for (const auto& [key, value] : object_.items()) {
    if (table_.find(key) == nullptr) {
      const std::string_view nearest = nearest_name(key, table_.names());
      reading_.warnings.push_back(
          {"unknown-key",
           fmt::format("{} is not a key of {}{}; {}", excerpt(dotted(key)), program,
                       nearest.empty() ? "" : fmt::format(" (it has \"{}\")", nearest),
                       consequence),
           dotted(key), nearest.empty() ? std::string() : dotted(nearest)});
    }
  }
}

void ConfigSection::refuse_others() {
  for (const auto& [key, value] : object_.items()) {
    if (table_.find(key) == nullptr) {
      const std::vector<std::string_view> names = table_.names();
      refuse(key, fmt::format("is not a key of penstock{}; the keys here are {}",
                              did_you_mean(key, names), fmt::join(names, ", ")));
      return;
    }
  }
}

void ConfigSection::refuse_misspelt(std::string_view name) {
  const std::vector<std::string_view> names{name};
  for (const auto& [key, value] : object_.items()) {
    const std::string question = did_you_mean(key, names);
    if (!question.empty() && key.find(name) == std::string::npos) {
      refuse(key, "is not a key" + question);
      return;
    }
  }
}

void ConfigSection::refuse_keys_of(std::string_view name, const ConfigTable& inside) {
  for (const auto& [key, value] : object_.items()) {
    if (inside.find(key) != nullptr) {
      refuse(key, fmt::format("belongs into the {0} block: write {{\"{0}\": {{\"{1}\": …}}}}", name,
                              key));
      return;
    }
  }
}

void ConfigSection::refuse_second_names(std::string_view program) {
  for (const ConfigKey& key : table_.keys) {
    if (!key.same_as.empty() && says(key.name) && says(key.same_as)) {
      refuse(key.name, fmt::format("is another name of {}, which is there, too; {} takes one of "
                                   "them",
                                   key.same_as, program));
    }
  }
}

bool ConfigSection::says(std::string_view key) const {
  const auto found = object_.find(std::string(key));
  return found != object_.end() && !found->is_null() && !is_auto(*found);
}

bool ConfigSection::has(std::string_view key) const {
  return object_.contains(key);
}

}  // namespace penstock

#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "bindings/deepspeed/config_key.h"
#include "bindings/deepspeed/plan_warning.h"

namespace penstock {

/// Where the values of one configuration file come from and what was wrong with it. The first
/// problem is kept; reads after it return defaults.
struct ConfigReading {
  std::string origin;  ///< the file's name, for errors
  std::map<std::string, std::string>
      origins;  ///< dotted key -> origin, of every value that was given
  std::optional<Error> problem;
  std::set<std::string> automatic;  ///< dotted keys outside of the penstock block that are "auto"
  std::vector<PlanWarning> warnings;
};

/// One JSON object of a configuration, read by the keys of a table: each that is read must be there
/// with the kind that it is read as. An absent key and Hugging Face's "auto" leave the value as it
/// is. Errors name the dotted key, what was found and what is allowed.
class ConfigSection {
 public:
  /// `prefix` is the dotted path of the object, empty for the top. All references must outlive
  /// this.
  ConfigSection(const nlohmann::json& object, std::string prefix, ConfigReading& reading,
                const ConfigTable& table);

  /// In each form that json_flag() takes.
  void read_flag(std::string_view key, bool& value);
  /// From 0 to the key's maximum, in each form that json_count() takes.
  void read_count(std::string_view key, std::uint64_t& value);
  void read_number(std::string_view key, double& value);
  void read_text(std::string_view key, std::string& value);
  /// Bytes: a whole number or a text such as "64MiB". null and "auto" leave it empty.
  void read_size(std::string_view key, std::optional<std::uint64_t>& value);
  /// One of the key's choices; `value` gets its index.
  void read_choice(std::string_view key, std::size_t& value);

  /// The object under `key`, if it is there (null counts as absent).
  std::optional<ConfigSection> section(std::string_view key);
  /// The value under `key`, or nullptr where it is absent, null or "auto". Marks it as given.
  const nlohmann::json* given(std::string_view key);

  /// Refuses the first key that is not in the table, with the nearest that is.
  void refuse_others();
  /// Refuses the first key that is nearly `name`. One such as `_name` sets a section aside.
  void refuse_misspelt(std::string_view name);
  /// Refuses the first key that belongs into a block `name`, whose keys are `inside`.
  void refuse_keys_of(std::string_view name, const ConfigTable& inside);
  /// Refuses the first value that stands under both of its names, as the program does.
  void refuse_second_names(std::string_view program);
  bool has(std::string_view key) const;
  /// Warns of every such key: `<dotted key> is not a key of <program>; <consequence>`.
  void warn_of_others(std::string_view program, std::string_view consequence);
  /// Records the problem `<dotted key> in <origin> <what>`, unless there is one already.
  void refuse(std::string_view key, std::string_view what);
  std::string dotted(std::string_view key) const;
  ConfigReading& reading() { return reading_; }

 private:
  /// Whether given() has a value; it is not marked.
  bool says(std::string_view key) const;
  const ConfigKey& key_of(std::string_view key, KeyKind kind) const;
  const nlohmann::json* given_as(std::string_view key, KeyKind kind);

  const nlohmann::json& object_;
  std::string prefix_;
  ConfigReading& reading_;
  const ConfigTable& table_;
};

}  // namespace penstock

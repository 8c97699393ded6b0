#pragma once

#include <optional>
#include <string>

#include "alloc/result.h"
#include "bindings/deepspeed/config.h"
#include "cli/accelerate_config.h"

namespace penstock::cli {

/// The configuration that a verb was given: DeepSpeed's JSON, or accelerate's YAML and the JSON
/// that it stands for.
struct ConfigSource {
  std::string json;    ///< DeepSpeed's configuration as it is written; empty: none was given
  std::string origin;  ///< the file that it is from
  std::optional<AccelerateConfig> accelerate;

  /// Errors: parse_config()'s. What accelerate says of itself is among the warnings.
  Result<Config> parse() const;
};

/// `path` ends in .yaml or .yml: accelerate's; empty: no configuration. Errors: the file's and
/// load_accelerate_config()'s.
Result<ConfigSource> read_config_source(const std::string& path);

}  // namespace penstock::cli

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bindings/deepspeed/automatic_values.h"
#include "bindings/deepspeed/plan_warning.h"

namespace penstock::cli {

/// What the YAML of `accelerate launch --config_file` means for DeepSpeed, as accelerate 1.15.0
/// reads it: commands/launch.py, utils/launch.py and DeepSpeedPlugin in utils/dataclasses.py.
struct AccelerateConfig {
  std::string deepspeed_file;      ///< what deepspeed_config_file names, where it was found
  std::string deepspeed_json;      ///< no such key: what accelerate builds from the others
  std::optional<TypeSource> type;  ///< what "auto" of bf16.enabled and fp16.enabled stands for
  std::optional<std::uint32_t> num_processes;  ///< on all machines
  std::uint32_t num_machines = 1;
  std::vector<PlanWarning> warnings;  ///< what accelerate ignores or refuses
};

/// A relative deepspeed_config_file is looked for in the working directory, where accelerate looks,
/// then beside the YAML. Errors: the file's; parse_yaml()'s; Fault::kConfiguration for what is no
/// configuration of accelerate for DeepSpeed, for a wrong value, and for a file that is in neither
/// place.
Result<AccelerateConfig> load_accelerate_config(const std::string& path);

}  // namespace penstock::cli

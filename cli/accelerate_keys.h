#pragma once

#include <span>
#include <string_view>

#include "bindings/deepspeed/config_key.h"

namespace penstock::cli {

/// The keys that accelerate 1.15.0 has in its YAML, and those below `deepspeed_config`, which sets
/// options of `accelerate launch`; others are lost there. tests/cli/test_accelerate.py holds them
/// against the release that is installed.
extern const ConfigTable kAccelerateTable;
/// Those that accelerate refuses where deepspeed_config_file is given.
std::span<const std::string_view> accelerate_keys_beside_file() noexcept;

}  // namespace penstock::cli

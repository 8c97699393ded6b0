#pragma once

#include <span>
#include <string_view>

namespace penstock::cli {

/// The keys that accelerate 1.15.0 has in its YAML; tests/cli/test_accelerate.py holds them against
/// the release that is installed.
std::span<const std::string_view> accelerate_keys() noexcept;
/// Those below `deepspeed_config`. It sets options of `accelerate launch`, and others are lost.
std::span<const std::string_view> accelerate_deepspeed_keys() noexcept;
/// Those that accelerate refuses where deepspeed_config_file is given.
std::span<const std::string_view> accelerate_keys_beside_file() noexcept;

}  // namespace penstock::cli

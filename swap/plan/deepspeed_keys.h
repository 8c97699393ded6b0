#pragma once

#include <span>
#include <string_view>

namespace penstock {

/// The keys that DeepSpeed 0.19.8 reads, by object of its configuration, names of old and short
/// forms included; tests/deepspeed/test_configuration_keys.py holds them against the release that
/// is installed.
std::span<const std::string_view> deepspeed_top_keys() noexcept;
std::span<const std::string_view> deepspeed_zero_keys() noexcept;
std::span<const std::string_view> deepspeed_offload_param_keys() noexcept;
std::span<const std::string_view> deepspeed_offload_optimizer_keys() noexcept;

}  // namespace penstock

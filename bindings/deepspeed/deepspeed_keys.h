#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "bindings/deepspeed/config_key.h"

namespace penstock {

inline constexpr std::uint64_t kStageMax = 3;  ///< of ZeRO
/// What the aliases of some keys of `zero_optimization` have before the names of DeepSpeed's
/// fields.
inline constexpr std::string_view kStage3Prefix = "stage3_";
// In the order of OffloadDevice.
inline constexpr std::array<std::string_view, 3> kDeviceNames{"none", "cpu", "nvme"};

/// The top of DeepSpeed's file: the keys that DeepSpeed 0.19.8 reads, names of old and short forms
/// included, `penstock` and `$schema`. tests/deepspeed/test_configuration_keys.py holds them
/// against the release that is installed. Only the objects that DeepSpeed itself refuses other keys
/// in are complete.
extern const ConfigTable kDeepSpeedTable;

}  // namespace penstock

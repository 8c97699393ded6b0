#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "bindings/deepspeed/config_key.h"

namespace penstock {

// In the order of IntegrityLevel.
inline constexpr std::array<std::string_view, 3> kIntegrityNames{"off", "sampled", "full"};
inline constexpr std::array<std::string_view, 2> kModeNames{"scratch", "durable"};

/// A larger slot is a slip of the keyboard, and arithmetic on it would wrap.
inline constexpr std::uint64_t kSlotBytesMax = 1ULL << 50;

/// The keys of the `penstock` block, of an entry of its `paths` and of one of its `tensors`, in the
/// order in which docs/TUNING.md explains them.
extern const ConfigTable kPenstockTable;
extern const ConfigTable kPathTable;
extern const ConfigTable kRuleTable;

}  // namespace penstock

#pragma once

#include <cstdint>

namespace penstock {

/// What of a tensor is proven when it comes back: its identity, a sample of its bytes, all of them.
enum class IntegrityLevel : std::uint8_t { kOff, kSampled, kFull };

}  // namespace penstock

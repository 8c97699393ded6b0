#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "swap/plan/config.h"

namespace penstock {

/// XXH3 (64 bits) of what the level looks at: nothing (0) for kOff; one cache line of every 4 KiB
/// for kSampled, a different one in neighbouring pages, so that a block that is stale, torn or
/// misplaced shows for about a tenth of the cost; every byte for kFull. Not cryptographic. Pure,
/// thread-safe.
std::uint64_t checksum(IntegrityLevel level, std::span<const std::byte> bytes);

}  // namespace penstock

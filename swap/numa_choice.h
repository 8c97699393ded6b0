#pragma once

#include <cstdint>
#include <optional>

#include "alloc/page_source.h"

namespace penstock {

/// Where memory should come from: the node that is `wanted` (a device's), else the one that the
/// calling thread's cores belong to, if they belong to one. Nowhere in particular where the machine
/// does not tell; the log says why. Thread-safe.
NumaPreference choose_numa_node(std::optional<std::uint32_t> wanted);

}  // namespace penstock

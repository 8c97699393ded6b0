#pragma once

#include <cstdint>
#include <optional>

#include "alloc/page_source.h"

namespace penstock {

/// The node that memory should come from: the one that is `wanted` (a device's), else that of the
/// calling thread's cores, if they belong to one. No node where the machine does not report any;
/// the log says why. Thread-safe.
NumaPreference choose_numa_node(std::optional<std::uint32_t> wanted);

}  // namespace penstock

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "swap/plan/budgets.h"
#include "swap/stats.h"

namespace penstock {

/// One sentence, or a few, for a user whose tensors went to pageable memory because
/// max_pinned_bytes was too small for what was held at once: how much that was, whether it cost
/// time, and the value that ends it. Nothing where no larger value would have helped. `budgets` are
/// those in force, without what is pinned for devices (stats.staging_bytes); `memlock_bytes` is
/// what the process may lock (nothing: no limit). Pure.
std::optional<std::string> overflow_advice(const SwapStats& stats, const Budgets& budgets,
                                           std::optional<std::uint64_t> memlock_bytes);

}  // namespace penstock

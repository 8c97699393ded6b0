#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "swap/plan/config.h"
#include "swap/plan/machine_fit.h"

namespace penstock::cli {

/// What this process may lock in memory: nothing where it has no limit (CAP_IPC_LOCK, unlimited).
std::optional<std::uint64_t> memlock_limit_bytes();

/// Looks at this machine for `plan`; creates nothing.
MachineFacts read_machine_facts(const std::vector<PathConfig>& paths);

}  // namespace penstock::cli

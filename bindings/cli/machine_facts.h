#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "swap/plan/config.h"
#include "swap/plan/machine_fit.h"

namespace penstock::cli {

/// Looks at this machine for `plan`; creates nothing.
MachineFacts read_machine_facts(const std::vector<PathConfig>& paths);

}  // namespace penstock::cli

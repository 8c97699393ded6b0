#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/deepspeed/config.h"
#include "bindings/deepspeed/machine_fit.h"

namespace penstock::cli {

/// Looks at this machine for `plan`; creates nothing.
MachineFacts read_machine_facts(const std::vector<PathConfig>& paths);

}  // namespace penstock::cli

#pragma once

#include <string>

#include "swap/plan/swap_plan.h"

namespace penstock::cli {

/// A DeepSpeed JSON for the plan: the file at `config_path` (or, where it is empty, a minimal one)
/// with a buffer_size that holds the largest partition, a buffer_count that holds what DeepSpeed
/// brings together while it builds the model, and the penstock block with the plan's budgets. All
/// other keys stay as they are. Stock DeepSpeed builds the model with it, and so does penstock.
Result<std::string> emit_config(const SwapPlan& plan, const std::string& config_path);

}  // namespace penstock::cli

#pragma once

#include <string>

#include "bindings/deepspeed/swap_plan.h"

namespace penstock::cli {

/// The plan for a person whose run has died: what was asked, budgets and where they come from, the
/// size classes, what becomes of whatever is no ordinary tensor and why, what stock DeepSpeed makes
/// of the same file, the memory table with its formulas, the traffic of a step, and what to look
/// out for.
std::string plan_text(const SwapPlan& plan);

/// Its last section but the verdict: what to look out for, a line each under a heading; empty where
/// there is nothing.
std::string warnings_text(const SwapPlan& plan);

}  // namespace penstock::cli

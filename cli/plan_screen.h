#pragma once

#include <cstddef>
#include <string>

#include "bindings/deepspeed/swap_plan.h"

namespace penstock::cli {

/// The plan on one screen of 24 lines: whether it fits, what is pinned and why, what stays in RAM,
/// what a step reads and writes, what the process takes at its peak, what stock DeepSpeed would do.
/// Lines are at most `width` columns long, but for the first, the verdict.
std::string plan_screen(const SwapPlan& plan, std::size_t width);

}  // namespace penstock::cli

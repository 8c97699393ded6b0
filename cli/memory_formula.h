#pragma once

#include <string>

#include "bindings/deepspeed/swap_plan.h"

namespace penstock::cli {

/// How a row of the memory table comes about, for a person who has other figures in mind: what is
/// divided by the world size, from which stage on, and into how many bytes a parameter.
std::string memory_formula(const SwapPlan& plan, const MemoryRow& row);

}  // namespace penstock::cli

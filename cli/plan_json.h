#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bindings/deepspeed/swap_plan.h"

namespace penstock::cli {

/// The plan as one JSON document, schema penstock.plan/1 (docs/PLAN_JSON.md), with a line end.
/// `verbose`: with the optimizer's states and the memory of the process.
std::string plan_json(const SwapPlan& plan, bool verbose);

/// Its `warnings`.
nlohmann::ordered_json warnings_json(const SwapPlan& plan);

}  // namespace penstock::cli

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "bindings/deepspeed/optimizer_state.h"

namespace penstock {

/// The states of DeepSpeed's `optimizer` section, in the order in which its optimizer makes them;
/// Adam's where `type` is empty or unknown, because nothing that is common keeps more. `params` is
/// the section's. Pure.
std::vector<OptimizerState> states_of_optimizer(std::string_view type,
                                                const nlohmann::json& params);

}  // namespace penstock

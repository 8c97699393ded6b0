#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

namespace penstock {

/// A state of a parameter's length that an optimizer keeps in fp32.
struct OptimizerState {
  std::string_view name;   ///< as the optimizer names it
  bool is_stepped = true;  ///< a step reads and writes it
};

/// Adam's: exp_avg and exp_avg_sq.
std::vector<OptimizerState> adam_states();

/// The states of DeepSpeed's `optimizer` section, in the order in which its optimizer makes them;
/// Adam's where `type` is empty or unknown, because nothing that is common keeps more. `params` is
/// the section's. Pure.
std::vector<OptimizerState> states_of_optimizer(std::string_view type,
                                                const nlohmann::json& params);

}  // namespace penstock

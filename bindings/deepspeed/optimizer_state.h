#pragma once

#include <string_view>
#include <vector>

namespace penstock {

/// A state of a parameter's length that an optimizer keeps in fp32.
struct OptimizerState {
  std::string_view name;   ///< as the optimizer names it
  bool is_stepped = true;  ///< a step moves it
};

/// Adam's: exp_avg and exp_avg_sq.
inline std::vector<OptimizerState> adam_states() {
  return {{"exp_avg"}, {"exp_avg_sq"}};
}

}  // namespace penstock

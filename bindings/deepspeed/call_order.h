#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace penstock {

/// A parameter under one of its names.
struct ParameterUse {
  std::string_view name;
  std::size_t place = 0;  ///< in the inventory
};

/// Moves a layer's norms from where the model registers them, often behind all else, to where the
/// layer calls them. It knows names of Hugging Face's models; others stay where they are. Pure.
void order_norms(std::vector<ParameterUse>& uses);

/// Whether both are projections of one input, as a query's and a key's, or their adapters. Neither
/// computes from the other. Pure.
bool share_input(std::string_view name_a, std::string_view name_b);

}  // namespace penstock

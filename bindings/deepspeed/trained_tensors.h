#pragma once

#include <string>
#include <vector>

#include "swap/plan/inventory.h"

namespace penstock {

/// Freezes every parameter that none of `patterns` (matches_pattern(), `all` or `none`) matches.
/// `all` are those that the inventory does not call frozen; a pattern has these, too.
/// `adapters`: names that come later, for add_adapter(), and are trained whatever a pattern says.
/// Errors: a pattern that matches neither a parameter nor an adapter, which would freeze a model by
/// a slip of the keyboard.
Result<void> choose_trained(Inventory& inventory, const std::vector<std::string>& patterns,
                            const std::vector<std::string>& adapters);

struct Adapter {
  TensorInfo tensor;      ///< fp32 where no type is given
  bool has_type = false;  ///< one is given
};

/// Reads `NAME=ROWSxCOLS[:DTYPE]`. Errors: another form.
Result<Adapter> parse_adapter(const std::string& text);

/// Adds the trained tensors of an adapter such as LoRA's. Each `*` in its name stands for what the
/// inventory has there between two dots, such as the number of a layer: one tensor is made for each
/// module that the name agrees with, as far as any does. Each goes behind the tensor that shares
/// most of its path, else behind the first. Returns their names. Errors: a name that is taken; a
/// `*` that nothing stands for; a module that is not at that place.
Result<std::vector<std::string>> add_adapter(Inventory& inventory, const TensorInfo& adapter);

}  // namespace penstock

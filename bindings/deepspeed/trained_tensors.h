#pragma once

#include <string>
#include <vector>

#include "swap/plan/inventory.h"

namespace penstock {

/// Freezes every parameter that none of `patterns` (matches_pattern(), `all` or `none`) matches.
/// Errors: a pattern that matches no parameter, which would freeze a model by a slip of the
/// keyboard.
Result<void> choose_trained(Inventory& inventory, const std::vector<std::string>& patterns);

/// Reads `NAME=ROWSxCOLS[:DTYPE]`, fp32 where no type is given. Errors: another form.
Result<TensorInfo> parse_adapter(const std::string& text);

/// Adds the trained tensors of an adapter such as LoRA's. `*` in its name makes one for each word
/// that stands there between dots in the inventory's names, such as the number of a layer. Each
/// goes behind the tensor that shares most of its path, else behind the first. Errors: a name that
/// is taken; a `*` that nothing stands for.
Result<void> add_adapter(Inventory& inventory, const TensorInfo& adapter);

}  // namespace penstock

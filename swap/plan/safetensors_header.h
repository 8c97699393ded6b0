#pragma once

#include <string>

#include "swap/plan/inventory.h"

namespace penstock {

/// The tensors of one `.safetensors` file in natural order of their names; reads its header only.
/// Errors: errno with the path; Fault::kInvalidArgument saying what is wrong with the file.
Result<Inventory> load_safetensors(const std::string& path);

}  // namespace penstock

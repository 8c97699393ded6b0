#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "swap/plan/inventory.h"

namespace penstock {

/// A tensor from its JSON form: `dtype`, `shape` and, where it is there, `role`; other keys pass.
/// `where` names it in errors (Fault::kInvalidArgument). Its bytes are known to fit 63 bits.
Result<TensorInfo> read_tensor_json(const std::string& name, const nlohmann::json& entry,
                                    const std::string& where);

}  // namespace penstock

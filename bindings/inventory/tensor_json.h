#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "swap/plan/inventory.h"

namespace penstock {

/// A tensor from its JSON form, as safetensors has it: `dtype` and `shape`; other keys pass. Its
/// bytes are known to fit 63 bits. Errors (Fault::kInvalidArgument) say what is wrong with it, `has
/// no dtype`, for the caller to say with which: a hundred thousand good ones need no name.
Result<TensorInfo> read_tensor_json(const std::string& name, const nlohmann::json& entry);

/// The same in penstock's own files, which may have `role` and `trainable`, too.
Result<TensorInfo> read_described_tensor(const std::string& name, const nlohmann::json& entry);

/// `error` as a sentence about `tensor`.
Error tensor_error(const std::string& tensor, Error error);

}  // namespace penstock

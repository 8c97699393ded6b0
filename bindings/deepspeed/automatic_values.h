#pragma once

#include <optional>
#include <string>

#include "bindings/deepspeed/config.h"
#include "swap/plan/inventory.h"

namespace penstock {

/// The type that most parameters' elements have: bf16, f16 or f32 (also where most have another).
DType model_dtype(const Inventory& inventory) noexcept;

/// A type that something other than the configuration gives a model, in a warning's words.
struct TypeSource {
  DType dtype = DType::kF32;
  std::string said_by;  ///< `mixed_precision of accelerate.yaml`
  /// `mixed_precision is not in accelerate.yaml`, where that is why it has to be assumed; empty:
  /// the configuration's "auto" is.
  std::string unsaid = {};
};

/// Puts numbers in place of Hugging Face's "auto", which the training script replaces in a run, and
/// warns of each (`assumed`): `given`, else `launched`, else the inventory's own type where
/// bf16.enabled or fp16.enabled is "auto"; 10 x the hidden size for
/// stage3_param_persistence_threshold, as transformers does, by the width of the embedding;
/// DeepSpeed's defaults for others. Errors: `given` is not what the file says.
Result<void> settle_automatic_values(Config& config, const Inventory& inventory,
                                     std::optional<DType> given,
                                     const std::optional<TypeSource>& launched = {});

}  // namespace penstock

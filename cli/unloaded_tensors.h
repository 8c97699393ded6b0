#pragma once

#include <string>
#include <vector>

#include "bindings/deepspeed/plan_warning.h"
#include "swap/plan/inventory.h"

namespace penstock::cli {

/// Leaves out of a model what its file (a .safetensors or its index) stores and transformers 5
/// makes no parameter of, and says so: a head where config.json beside it has
/// `"tie_word_embeddings": true` and the embedding is there too; the masks that older versions
/// saved with attention.
std::vector<PlanWarning> leave_out_unloaded(Inventory& inventory, const std::string& file);

}  // namespace penstock::cli

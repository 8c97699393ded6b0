#pragma once

#include <string>

#include "swap/plan/inventory.h"

namespace penstock {

/// The tensors of a checkpoint in shards, from its `….safetensors.index.json`, in natural order of
/// their names. Every shard that it names must be there and hold what the index says it holds.
Result<Inventory> load_safetensors_index(const std::string& path);

}  // namespace penstock

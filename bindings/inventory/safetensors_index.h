#pragma once

#include <string>

#include "bindings/inventory/checkpoint.h"

namespace penstock {

/// A checkpoint in shards, from its `….safetensors.index.json`. Every shard that it names must be
/// there and hold what the index says it holds.
Result<Checkpoint> load_indexed_checkpoint(const std::string& path);

}  // namespace penstock

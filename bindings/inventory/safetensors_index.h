#pragma once

#include <string>
#include <vector>

#include "bindings/inventory/checkpoint.h"

namespace penstock {

/// A checkpoint in shards, from its `….safetensors.index.json`. Every shard that it names must be
/// there and hold what the index says it holds.
Result<Checkpoint> load_indexed_checkpoint(const std::string& path);

/// Files that an index of shards names (`….safetensors.index.json`, `pytorch_model.bin.index.json`)
/// and that do not lie beside it, in natural order. Errors: of an index that cannot be read.
Result<std::vector<std::string>> missing_shards(const std::string& path);

}  // namespace penstock

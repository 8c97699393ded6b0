#pragma once

#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "bindings/inventory/checkpoint.h"

namespace penstock {

/// A checkpoint in shards, from its `….safetensors.index.json`. Every shard that it names must be
/// there and hold what the index says it holds.
Result<Checkpoint> load_indexed_checkpoint(const std::string& path);

/// Names of tensors by shard. A shard is a file beside the index: anything else in its place (an
/// absolute path, `..`) is an error and not a way to make us open what the user did not name.
using ShardedNames = std::map<std::string, std::unordered_set<std::string>>;

/// What an index says (`….safetensors.index.json`, `pytorch_model.bin.index.json`). Errors: of one
/// that cannot be read.
Result<ShardedNames> read_weight_map(const std::string& path);

/// Files that an index of shards names (`….safetensors.index.json`, `pytorch_model.bin.index.json`)
/// and that do not lie beside it, in natural order. Errors: of an index that cannot be read.
Result<std::vector<std::string>> missing_shards(const std::string& path);

}  // namespace penstock

#pragma once

#include <string>
#include <string_view>

#include "alloc/result.h"
#include "swap/plan/inventory.h"

namespace penstock {

/// Reads a `.safetensors` file (its header only), a `model.safetensors.index.json` (the headers of
/// its shards), a directory with either, the name of a model in Hugging Face's cache
/// (find_in_hub_cache()) where there is no such path, or a JSON file `{"tensors": [{"name",
/// "dtype", "shape", "role"?, "trainable"?}], "ties"?: {"other name": "name"}}`. Order is that of
/// the file; the order of building (model_order_less()) for safetensors, whose headers are sorted
/// by name or not at all. Errors: the world's with path; Fault::kInvalidArgument for what is not an
/// inventory, naming file and place. Sizes in a file are never trusted beyond its length.
Result<Inventory> load_inventory(const std::string& path);
/// The file that stands for `path`, which load_inventory() reads. Errors: there is none.
Result<std::string> find_inventory_file(const std::string& path);
/// The JSON form, from memory; `origin` names it in errors.
Result<Inventory> parse_inventory(std::string_view json, const std::string& origin);
}  // namespace penstock

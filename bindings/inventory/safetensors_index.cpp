#include "bindings/inventory/safetensors_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "bindings/inventory/input_file.h"
#include "bindings/inventory/json_document.h"
#include "bindings/inventory/safetensors_header.h"
#include "swap/plan/natural_order.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::uint64_t kIndexBytesMax = 1ULL << 28;

Error bad_index(const std::string& path, std::string message) {
  return fault(Fault::kInvalidArgument, std::move(message), path);
}

bool is_beside(const std::string& path, const std::string& shard) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(path).parent_path() / shard, ignored);
}

}  // namespace

Result<ShardedNames> read_weight_map(const std::string& path) {
  Result<std::string> text = read_text_file(path, kIndexBytesMax);
  PENSTOCK_TRY(text);
  Result<json> parsed = parse_json(*text, path, Fault::kInvalidArgument);
  PENSTOCK_TRY(parsed);
  if (!parsed->is_object() || !parsed->contains("weight_map") ||
      !(*parsed)["weight_map"].is_object()) {
    return bad_index(path, fmt::format("{} has no object \"weight_map\"", path));
  }
  ShardedNames shards;
  for (const auto& [name, shard] : (*parsed)["weight_map"].items()) {
    if (!shard.is_string() || shard.get_ref<const std::string&>().empty()) {
      return bad_index(path, fmt::format("{}: the shard of {} is {}, not the name of a file", path,
                                         excerpt(name), describe_json(shard)));
    }
    const std::string& file = shard.get_ref<const std::string&>();
    if (file.find('/') != std::string::npos || file == "..") {
      return bad_index(path,
                       fmt::format("{}: the shard of {} is {}, which is not a file beside the "
                                   "index",
                                   path, excerpt(name), excerpt(file)));
    }
    shards[file].insert(name);
  }
  return shards;
}

Result<Checkpoint> load_indexed_checkpoint(const std::string& path) {
  Result<ShardedNames> shards = read_weight_map(path);
  PENSTOCK_TRY(shards);
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  Checkpoint checkpoint;
  for (auto& [shard, names] : *shards) {
    const std::string shard_path = (directory / shard).string();
    if (!is_beside(path, shard)) {
      return bad_index(
          path, fmt::format("{} names the shard {}, which is not there", path, excerpt(shard)));
    }
    Result<Checkpoint> part = load_safetensors(shard_path);
    PENSTOCK_TRY(part);
    for (CheckpointTensor& tensor : part->tensors) {
      // What the index does not name is not part of the model.
      if (names.erase(tensor.info.name) != 0) {
        checkpoint.tensors.push_back(
            {std::move(tensor.info), checkpoint.files.size(), tensor.offset});
      } else if (++checkpoint.unnamed == 1) {
        checkpoint.first_unnamed = std::move(tensor.info.name);
      }
    }
    checkpoint.files.push_back(shard_path);
    checkpoint.metadata.merge(part->metadata);
    if (!names.empty()) {
      return bad_index(path, fmt::format("{} says that {} is in {}, which does not have it", path,
                                         excerpt(*std::min_element(names.begin(), names.end())),
                                         excerpt(shard)));
    }
  }
  std::ranges::sort(checkpoint.tensors, [](const CheckpointTensor& a, const CheckpointTensor& b) {
    return natural_less(a.info.name, b.info.name);
  });
  return checkpoint;
}

Result<std::vector<std::string>> missing_shards(const std::string& path) {
  const Result<ShardedNames> shards = read_weight_map(path);
  PENSTOCK_TRY(shards);
  std::vector<std::string> missing;
  for (const auto& [shard, names] : *shards) {
    if (!is_beside(path, shard)) {
      missing.push_back(shard);
    }
  }
  std::ranges::sort(missing, natural_less);
  return missing;
}

}  // namespace penstock

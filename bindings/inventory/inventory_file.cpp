#include "bindings/inventory/inventory_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "bindings/inventory/checkpoint.h"
#include "bindings/inventory/hub_cache.h"
#include "bindings/inventory/input_file.h"
#include "bindings/inventory/json_document.h"
#include "bindings/inventory/model_order.h"
#include "bindings/inventory/tensor_json.h"

namespace penstock {
namespace {

using nlohmann::json;

// A million tensors with long names need about 200 MB.
constexpr std::uint64_t kInventoryBytesMax = 1ULL << 30;
// Sums of all tensors' bytes, times a few (masters, moments), must stay within 64 bits.
constexpr std::uint64_t kTotalBytesMax = 1ULL << 56;
// Each is looked for in the whole model. Models have a few.
constexpr std::size_t kTiesMax = 4096;

Result<Inventory> checked(Inventory inventory, const std::string& origin) {
  if (inventory.tensors.empty()) {
    return fault(Fault::kInvalidArgument, fmt::format("{} has no tensors", origin));
  }
  std::unordered_set<std::string_view> names;
  names.reserve(inventory.tensors.size());
  std::uint64_t total = 0;
  for (const TensorInfo& tensor : inventory.tensors) {
    if (!names.insert(tensor.name).second) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("{} has the tensor {} twice", origin, excerpt(tensor.name)));
    }
    // Each is below 2^63, so that the sum cannot wrap before it is seen to be too large.
    total += tensor.bytes();
    if (total > kTotalBytesMax) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("{} has more than 2^56 bytes of tensors by the time of {}", origin,
                               excerpt(tensor.name)));
    }
  }
  return inventory;
}

Result<Inventory> load_file(const std::string& path) {
  if (is_safetensors(path)) {
    const Result<Checkpoint> checkpoint = load_checkpoint(path);
    PENSTOCK_TRY(checkpoint);
    Inventory inventory = checkpoint->inventory();
    std::ranges::sort(inventory.tensors, model_order_less, &TensorInfo::name);
    return checked(std::move(inventory), path);
  }
  PENSTOCK_TRY(check_not_pytorch(path));
  Result<std::string> text = read_text_file(path, kInventoryBytesMax);
  PENSTOCK_TRY(text);
  return parse_inventory(*text, path);
}

// {"lm_head.weight": "model.embed_tokens.weight"}
Result<std::vector<TiedName>> read_ties(const json& ties, const std::string& origin) {
  if (!ties.is_object() || ties.size() > kTiesMax) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} has ties that are no object of at most {} names, each with that "
                             "of the tensor it is tied to",
                             origin, kTiesMax));
  }
  std::vector<TiedName> read;
  for (const auto& [name, tensor] : ties.items()) {
    if (!tensor.is_string()) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("{}: ties has {} for {}, not a name", origin, describe_json(tensor),
                               excerpt(name)));
    }
    read.push_back({name, tensor.get<std::string>()});
  }
  return read;
}

}  // namespace

Result<Inventory> parse_inventory(std::string_view text, const std::string& origin) {
  Result<json> parsed = parse_json(text, origin, Fault::kInvalidArgument);
  PENSTOCK_TRY(parsed);
  if (!parsed->is_object() || !parsed->contains("tensors") || !(*parsed)["tensors"].is_array()) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} is not an inventory: it has no list \"tensors\" of {{\"name\", "
                             "\"dtype\", \"shape\"}}",
                             origin));
  }
  Inventory inventory;
  const json& entries = (*parsed)["tensors"];
  inventory.tensors.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const json& entry = entries[i];
    const auto name = entry.is_object() ? entry.find("name") : entry.end();
    if (name == entry.end() || !name->is_string() || name->get_ref<const std::string&>().empty()) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("{}: tensors[{}] has no name (a text)", origin, i));
    }
    const std::string& text_of_name = name->get_ref<const std::string&>();
    Result<TensorInfo> info = read_described_tensor(text_of_name, entry);
    if (!info) {
      return tensor_error(fmt::format("{}: tensors[{}] ({})", origin, i, excerpt(text_of_name)),
                          std::move(info).error());
    }
    inventory.tensors.push_back(std::move(*info));
  }
  if (const auto ties = parsed->find("ties"); ties != parsed->end()) {
    Result<std::vector<TiedName>> read = read_ties(*ties, origin);
    PENSTOCK_TRY(read);
    inventory.ties = std::move(*read);
  }
  return checked(std::move(inventory), origin);
}

Result<std::string> find_inventory_file(const std::string& path) {
  std::error_code ignored;
  std::string file = path;
  if (!std::filesystem::exists(path, ignored) && is_hub_name(path)) {
    Result<std::string> cached = find_in_hub_cache(path);
    PENSTOCK_TRY(cached);
    file = std::move(*cached);
  }
  return std::filesystem::is_directory(file, ignored) ? find_checkpoint_file(file)
                                                      : Result<std::string>(std::move(file));
}

Result<Inventory> load_inventory(const std::string& path) {
  const Result<std::string> file = find_inventory_file(path);
  PENSTOCK_TRY(file);
  Result<Inventory> inventory = load_file(*file);
  if (inventory.has_error() && inventory.error().path.empty()) {
    inventory.error().path = *file;
  }
  return inventory;
}

}  // namespace penstock

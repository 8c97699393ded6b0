#include "cli/inventory_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

#include "alloc/excerpt.h"
#include "bindings/deepspeed/checkpoint_summary.h"
#include "bindings/inventory/checkpoint.h"
#include "bindings/inventory/inventory_file.h"
#include "cli/checkpoint_inventory.h"
#include "cli/unloaded_tensors.h"
#include "swap/plan/name_pattern.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAdapterFile = "adapter_model.safetensors";

// PEFT saves the adapter alone; the model that it belongs to lies elsewhere.
std::vector<PlanWarning> warn_of_adapter(const std::string& file, const std::string& path) {
  if (fs::path(file).filename() != kAdapterFile) {
    return {};
  }
  return {{"adapter-only",
           fmt::format("{} holds an adapter only; name the model that it belongs to as well, whose "
                       "tensors are not in this plan",
                       excerpt(path))}};
}

// transformers 5 makes one tensor of a layer's experts when it loads them.
std::vector<PlanWarning> warn_of_experts(const Inventory& inventory, const std::string& path) {
  const auto is_of_expert = [](const TensorInfo& tensor) {
    return matches_pattern("*.experts.0.*", tensor.name);
  };
  if (std::ranges::none_of(inventory.tensors, is_of_expert)) {
    return {};
  }
  return {{"separate-experts",
           fmt::format("{} has tensors of each expert; transformers 5 joins those of a layer when "
                       "it loads them, and training swaps what it has joined: `python -m "
                       "penstock.inventory` writes an inventory of that from the model's "
                       "config.json",
                       excerpt(path))}};
}

// Where each rank had its own part, transformers saves names with empty shapes.
bool is_stub(const Inventory& inventory) {
  const auto empty = std::ranges::count_if(
      inventory.tensors, [](const TensorInfo& tensor) { return tensor.elements() == 0; });
  return 2 * static_cast<std::size_t>(empty) >= inventory.tensors.size();
}

// Weights that transformers has saved come first: they say the type of every tensor.
Result<InventorySource> read_one(const std::string& path) {
  const Result<std::string> file = find_inventory_file(path);
  Result<Inventory> inventory = file ? load_inventory(*file) : file.error();
  std::error_code error;
  if ((!inventory || is_stub(*inventory)) && fs::is_directory(path, error)) {
    Result<std::optional<CheckpointPlace>> place = find_checkpoint(path);
    if (!place) {
      return std::move(place).error();
    }
    if (*place) {
      const Result<CheckpointSummary> summary = summarize_checkpoint(std::move(**place));
      return summary ? checkpoint_inventory(*summary, path) : summary.error();
    }
  }
  if (!inventory) {
    return std::move(inventory).error();
  }
  std::vector<PlanWarning> warnings = warn_of_adapter(*file, path);
  if (is_safetensors(*file)) {  // a JSON inventory says what there is
    std::ranges::move(warn_of_experts(*inventory, path), std::back_inserter(warnings));
    std::ranges::move(leave_out_unloaded(*inventory, *file), std::back_inserter(warnings));
  }
  return InventorySource{std::move(*inventory), std::move(warnings)};
}

}  // namespace

Result<InventorySource> read_inventories(const std::vector<std::string>& paths) {
  InventorySource all;
  std::unordered_map<std::string, std::string> found_in;
  for (const std::string& path : paths) {
    Result<InventorySource> part = read_one(path);
    if (!part) {
      return part;
    }
    std::ranges::move(part->warnings, std::back_inserter(all.warnings));
    for (TensorInfo& tensor : part->inventory.tensors) {
      if (paths.size() > 1) {
        const auto [at, is_new] = found_in.emplace(tensor.name, path);
        if (!is_new) {
          return fault(Fault::kInvalidArgument, fmt::format("the tensor {} is in {} and in {}",
                                                            tensor.name, at->second, path));
        }
      }
      all.inventory.tensors.push_back(std::move(tensor));
    }
    if (part->inventory.ties) {
      std::ranges::move(*part->inventory.ties,
                        std::back_inserter(all.inventory.ties ? *all.inventory.ties
                                                              : all.inventory.ties.emplace()));
    }
  }
  return all;
}

}  // namespace penstock::cli

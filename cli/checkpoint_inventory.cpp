#include "cli/checkpoint_inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "alloc/counted.h"
#include "alloc/excerpt.h"
#include "bindings/deepspeed/training_setup.h"
#include "bindings/inventory/inventory_file.h"
#include "bindings/inventory/model_order.h"

namespace penstock::cli {
namespace {

using nlohmann::json;

// The type that most tensors of a checkpoint have; those of stage 3 have none in their own file.
DType usual_type(const std::vector<ModelTensor>& tensors) {
  std::map<std::string, std::size_t> counts;
  for (const ModelTensor& tensor : tensors) {
    if (parse_dtype(tensor.dtype)) {
      ++counts[tensor.dtype];
    }
  }
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& counted) { return counted.second; });
  return most == counts.end() ? DType::kF32 : parse_dtype(most->first).value();
}

std::vector<PlanWarning> warnings_of(const CheckpointSummary& summary, const std::string& path,
                                     std::size_t untyped, DType usual) {
  std::vector<PlanWarning> warnings;
  if (untyped != 0) {
    warnings.push_back(
        {"assumed", fmt::format("the checkpoint {} does not say the type of {}; "
                                "planned with {}",
                                excerpt(path), counted(untyped, "tensor"), dtype_name(usual))});
  }
  const auto broken = static_cast<std::size_t>(std::ranges::count_if(
      summary.files, [](const CheckpointFile& file) { return !file.problem.empty(); }));
  if (const std::size_t lost = broken + summary.missing.size(); lost != 0) {
    warnings.push_back({"checkpoint-incomplete",
                        fmt::format("{} files of the checkpoint {} are missing or cannot be read, "
                                    "and tensors of theirs may not be in this plan",
                                    lost, excerpt(path))});
  }
  return warnings;
}

// Gives the tensors of these groups the groups' order, in the places that they have together.
void follow_groups(Inventory& inventory, std::span<const ParameterGroup> groups) {
  std::unordered_map<std::string_view, std::size_t> positions;
  for (const ParameterGroup& group : groups) {
    for (const std::string& name : group.names) {
      positions.emplace(name, positions.size());
    }
  }
  std::vector<std::size_t> places;
  std::vector<TensorInfo> ordered;
  for (std::size_t i = 0; i < inventory.tensors.size(); ++i) {
    if (positions.contains(inventory.tensors[i].name)) {
      places.push_back(i);
      ordered.push_back(inventory.tensors[i]);
    }
  }
  std::ranges::sort(ordered, {},
                    [&](const TensorInfo& tensor) { return positions.at(tensor.name); });
  for (std::size_t k = 0; k < places.size(); ++k) {
    inventory.tensors[places[k]] = std::move(ordered[k]);
  }
}

// The groups have trained parameters as the optimizer has them; names say the rest. Where Trainer
// has made two parameter groups, each has the order of building, and names say how they mix.
void put_in_building_order(Inventory& inventory, std::span<const ParameterGroup> groups) {
  std::ranges::sort(inventory.tensors, model_order_less, &TensorInfo::name);
  std::unordered_set<std::string_view> decaying;
  for (const TensorInfo& tensor : inventory.tensors) {
    if (decays(tensor)) {
      decaying.insert(tensor.name);
    }
  }
  const auto decays_in = [&](bool all) {
    return [&, all](const ParameterGroup& group) {
      return std::ranges::all_of(
          group.names, [&](const std::string& name) { return decaying.contains(name) == all; });
    };
  };
  const auto border = std::ranges::find_if_not(groups, decays_in(true));
  const bool splits = std::all_of(border, groups.end(), decays_in(false));
  const auto first = splits ? static_cast<std::size_t>(border - groups.begin()) : groups.size();
  follow_groups(inventory, groups.first(first));
  follow_groups(inventory, groups.subspan(first));
}

}  // namespace

Result<InventorySource> checkpoint_inventory(const CheckpointSummary& summary,
                                             const std::string& path) {
  const DType usual = usual_type(summary.tensors);
  std::size_t untyped = 0;
  json tensors = json::array();
  for (const ModelTensor& tensor : summary.tensors) {
    if (tensor.role == "shared") {  // its bytes are another tensor's
      continue;
    }
    const bool is_typed = parse_dtype(tensor.dtype).has_value();
    untyped += is_typed ? 0 : 1;
    tensors.push_back(
        {{"name", tensor.name},
         {"dtype", is_typed ? tensor.dtype : std::string(dtype_name(usual))},
         {"shape", tensor.shape},
         {"role", role_name(tensor.role == "buffer" ? Role::kBuffer : Role::kParam)}});
  }
  const json document{{"tensors", std::move(tensors)}};
  Result<Inventory> inventory =
      parse_inventory(document.dump(-1, ' ', false, json::error_handler_t::replace), path);
  if (!inventory) {
    return std::move(inventory).error();
  }
  put_in_building_order(*inventory, summary.groups);
  return InventorySource{std::move(*inventory), warnings_of(summary, path, untyped, usual)};
}

}  // namespace penstock::cli

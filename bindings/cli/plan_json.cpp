#include "bindings/cli/plan_json.h"

#include <nlohmann/json.hpp>

namespace penstock::cli {
namespace {

using nlohmann::ordered_json;

ordered_json classes_json(const Placement& placement) {
  ordered_json list = ordered_json::array();
  for (const PlacedClass& placed : placement.classes) {
    list.push_back({{"slot_bytes", placed.slot_bytes},
                    {"slots", placed.slots},
                    {"tensors", placed.tensors},
                    {"waste_bytes", placed.waste_bytes}});
  }
  return list;
}

// Those of the inventory; the optimizer's own show in `memory`.
ordered_json tensors_json(const SwapPlan& plan) {
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < plan.setup.inventory.tensors.size(); ++i) {
    const PlacedTensor& placed = plan.placement.tensors[i];
    list.push_back(
        {{"name", plan.tensors[i].name},
         {"bytes", plan.tensors[i].bytes},
         {"place", place_name(placed.place)},
         {"class", placed.class_index ? ordered_json(*placed.class_index) : ordered_json(nullptr)},
         {"why", placed.why}});
  }
  return list;
}

ordered_json memory_json(const std::vector<MemoryRow>& memory) {
  ordered_json list = ordered_json::array();
  for (const MemoryRow& row : memory) {
    list.push_back({{"component", component_name(row.component)},
                    {"place", storage_name(row.storage)},
                    {"bytes_per_rank", row.bytes_per_rank}});
  }
  return list;
}

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

}  // namespace

std::string plan_json(const SwapPlan& plan) {
  const bool feasible = plan.feasibility.feasible;
  const ordered_json document{
      {"schema", "penstock.plan/1"},
      {"feasible", feasible},
      {"reason", feasible ? ordered_json(nullptr) : ordered_json(plan.feasibility.reason)},
      {"classes", classes_json(plan.placement)},
      {"tensors", tensors_json(plan)},
      {"pinned_bytes", plan.placement.pinned_bytes},
      {"ram_bytes", plan.placement.ram_bytes},
      {"nvme_bytes", plan.placement.nvme_bytes},
      {"peak_live_bytes", plan.placement.peak_live_bytes},
      {"memory", memory_json(plan.memory)},
      {"deepspeed_bytes", or_null(plan.stock.pinned_bytes)},
      {"deepspeed_error", or_null(plan.stock.error)},
      {"per_step",
       {{"read_bytes", plan.traffic.read_bytes},
        {"write_bytes", plan.traffic.write_bytes},
        // Needs a drive that was measured or simulated.
        {"lower_bound_seconds", nullptr}}},
      {"warnings", plan.warnings}};
  // Names come from files: a byte that is no UTF-8 is replaced, not thrown about.
  return document.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace penstock::cli

#pragma once

#include <string>
#include <vector>

#include "alloc/result.h"
#include "bindings/deepspeed/plan_warning.h"
#include "swap/plan/inventory.h"

namespace penstock::cli {

/// The tensors that a verb was given, and what is to be said of where they are from.
struct InventorySource {
  Inventory inventory;
  std::vector<PlanWarning> warnings;
};

/// All of `paths` together, each as load_inventory() takes it, or the directory of a checkpoint of
/// DeepSpeed whose weights are nowhere else. Errors: load_inventory()'s; a tensor that is in two of
/// them.
Result<InventorySource> read_inventories(const std::vector<std::string>& paths);

}  // namespace penstock::cli

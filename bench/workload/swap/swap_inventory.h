#pragma once

#include <cstdint>
#include <vector>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/inventory.h"

namespace penstock::bench {

/// What one rank swaps, and which of it belongs together. Numbers are indices into `tensors`.
struct SwapInventory {
  /// What the optimizer steps as one.
  struct SubGroup {
    std::vector<std::uint32_t> states;      ///< master, exp_avg, exp_avg_sq
    std::vector<std::uint32_t> parameters;  ///< rewritten after its step
  };

  std::vector<TensorInfo> tensors;
  std::vector<std::uint32_t> parameters;  ///< in the order of the inventory
  std::vector<SubGroup> sub_groups;       ///< in the order of the step

  std::uint64_t bytes(std::uint32_t tensor) const { return tensors[tensor].bytes(); }
};

/// As DeepSpeed does under this configuration: the partitions of parameters and the sub-groups'
/// states that are on NVMe and large enough; without a configuration the whole inventory, and
/// states for it. States that the inventory lists itself are a sub-group each. A phase without a
/// step of the optimizer has no states: nothing is planned or written for them. Pure.
SwapInventory swap_inventory(const TrainingSetup& setup, Phase phase);

}  // namespace penstock::bench

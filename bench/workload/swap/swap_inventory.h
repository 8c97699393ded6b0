#pragma once

#include <cstdint>
#include <vector>

#include "bench/job/job.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/inventory.h"

namespace penstock::bench {

/// What one rank swaps, and which of it belongs together. Numbers are indices into `tensors`.
struct SwapInventory {
  /// A chunk of a sub-group's states: read, stepped and written together.
  struct Step {
    std::vector<std::uint32_t> states;      ///< master, exp_avg, exp_avg_sq
    std::vector<std::uint32_t> parameters;  ///< rewritten after it: those whose master ends in it
    std::size_t sub_group = 0;
  };
  /// What DeepSpeed's optimizer steps as one.
  struct SubGroup {
    std::uint64_t elements = 0;
    std::vector<std::uint32_t> parameters;
  };

  std::vector<TensorInfo> tensors;
  std::vector<std::uint32_t> parameters;  ///< in the order of the inventory
  std::vector<Step> steps;                ///< in their order
  std::vector<SubGroup> sub_groups;  ///< likewise; none where the inventory lists states itself

  std::uint64_t bytes(std::uint32_t tensor) const { return tensors[tensor].bytes(); }
};

/// As DeepSpeed does under this configuration: the partitions of parameters and the sub-groups'
/// states that are on NVMe and large enough, the states in chunks of kStateChunkElements; without a
/// configuration the whole inventory, and states for it. States that the inventory lists itself are
/// a step each. A phase has what it uses: forward and generate no states, step no parameters. Pure.
SwapInventory swap_inventory(const TrainingSetup& setup, Phase phase);

}  // namespace penstock::bench

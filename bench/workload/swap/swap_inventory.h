#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/job/job.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/inventory.h"

namespace penstock::bench {

/// About `bytes` of an inventory, with the same distribution of sizes: of the tensors of each size
/// every k-th, evenly over the model, in their order. Larger sizes choose first and what they round
/// off is spread over the smaller ones, so that an embedding which is there whole or not at all
/// leaves the sum right within half a tensor of a size that many have. Deterministic. The whole
/// inventory where it has no more bytes than that; at least one tensor.
Inventory inventory_subset(const Inventory& inventory, std::uint64_t bytes);

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

/// One use as the DeepSpeed backend makes it: a parameter fetched, used and given back, or a step
/// of the optimizer.
struct PhaseUse {
  enum class Kind : std::uint8_t { kParameter, kStep };
  Kind kind = Kind::kParameter;
  std::uint32_t number = 0;  ///< of SwapInventory::tensors, or of its steps

  bool operator==(const PhaseUse&) const = default;
};

/// Forward passes of one loop of `generate`.
inline constexpr std::uint32_t kTokensPerLoop = 8;

/// One loop of a phase, in the runtime's order. Forward: the parameters as the inventory has them;
/// step: the optimizer's steps; train: forward, the parameters the other way round, step; generate:
/// forward again and again. Pure.
std::vector<PhaseUse> phase_order(const SwapInventory& inventory, Phase phase);

/// Bytes that callers see moving.
struct PhaseBytes {
  std::uint64_t read = 0;
  std::uint64_t write = 0;
};
PhaseBytes phase_bytes(const SwapInventory& inventory, std::span<const PhaseUse> order);

}  // namespace penstock::bench

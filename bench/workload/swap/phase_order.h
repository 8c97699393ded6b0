#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/job/job.h"
#include "bench/workload/swap/swap_inventory.h"

namespace penstock::bench {

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

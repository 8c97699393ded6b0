#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/job/job.h"
#include "bench/workload/swap/swap_inventory.h"

namespace penstock::bench {

/// One use of a tensor as the DeepSpeed backend makes it.
struct TensorUse {
  enum class Action : std::uint8_t {
    kRead,    ///< fetched, used, given back
    kFetch,   ///< fetched to be changed, and kept until kCommit; neighbours are asked for together
    kWrite,   ///< a new content, without the one before
    kCommit,  ///< what was fetched has a new content
  };
  Action action = Action::kRead;
  std::uint32_t tensor = 0;

  bool operator==(const TensorUse&) const = default;
};

/// Forward passes of one loop of `generate`.
inline constexpr std::uint32_t kTokensPerLoop = 8;

/// One loop of a phase, in the runtime's order. Forward: the parameters as the inventory has them;
/// backward: the other way round; step: sub-group by sub-group its states are fetched, its
/// parameters rewritten from them, and the states committed; train: these three; generate: forward
/// again and again. Pure.
std::vector<TensorUse> phase_order(const SwapInventory& inventory, Phase phase);

/// Bytes that callers see moving in one loop.
struct PhaseBytes {
  std::uint64_t read = 0;
  std::uint64_t write = 0;
};
PhaseBytes phase_bytes(const SwapInventory& inventory, std::span<const TensorUse> order);

}  // namespace penstock::bench

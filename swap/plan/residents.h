#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

/// A tensor that may be kept in RAM.
struct ResidentCandidate {
  std::uint64_t bytes = 0;
  /// Bytes that keeping it saves a step, per byte that it takes: its reads + writes a step.
  std::uint32_t saved_per_byte = 0;
};

/// Which of the candidates (in order of use) stay in RAM within `budget_bytes`: those that save
/// most per byte first, in order of use among equals, skipping what no longer fits. For the cyclic
/// order of training a static set chosen like this is as good as Belady's, and LRU is the worst
/// there is. What saves nothing is not kept. Pure.
std::vector<bool> choose_residents(std::span<const ResidentCandidate> candidates,
                                   std::uint64_t budget_bytes);

}  // namespace penstock

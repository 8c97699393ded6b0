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
/// most per byte first; among equals the first, and others spread over the order of use, so that
/// the drive always has something to read while callers use a resident, however little memory there
/// is to read ahead into. What no longer fits is skipped. For the cyclic order of training a static
/// set saves as many bytes as Belady's, and LRU is the worst there is. What saves nothing is not
/// kept. Pure.
std::vector<bool> choose_residents(std::span<const ResidentCandidate> candidates,
                                   std::uint64_t budget_bytes);

}  // namespace penstock

#include "swap/plan/residents.h"

#include <algorithm>
#include <numeric>

namespace penstock {

std::vector<bool> choose_residents(std::span<const ResidentCandidate> candidates,
                                   std::uint64_t budget_bytes) {
  std::vector<std::size_t> by_benefit(candidates.size());
  std::iota(by_benefit.begin(), by_benefit.end(), std::size_t{0});
  std::stable_sort(by_benefit.begin(), by_benefit.end(),
                   [candidates](std::size_t a, std::size_t b) {
                     return candidates[a].saved_per_byte > candidates[b].saved_per_byte;
                   });
  std::vector<bool> kept(candidates.size(), false);
  for (const std::size_t i : by_benefit) {
    if (candidates[i].saved_per_byte != 0 && candidates[i].bytes <= budget_bytes) {
      kept[i] = true;
      budget_bytes -= candidates[i].bytes;
    }
  }
  return kept;
}

}  // namespace penstock

#include "swap/plan/residents.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace penstock {
namespace {

using Candidates = std::span<const ResidentCandidate>;

/// Keeps what fits of `order`, and counts it off the budget: the next one where less than `share`
/// of the bytes before it is kept.
void keep_share(Candidates candidates, std::span<const std::size_t> order, double share,
                std::uint64_t& budget_bytes, std::vector<bool>& kept) {
  double met_bytes = 0;
  double kept_bytes = 0;
  for (const std::size_t i : order) {
    const std::uint64_t bytes = candidates[i].bytes;
    met_bytes += static_cast<double>(bytes);
    if (!kept[i] && bytes <= budget_bytes && kept_bytes < share * met_bytes) {
      kept[i] = true;
      kept_bytes += static_cast<double>(bytes);
      budget_bytes -= bytes;
    }
  }
}

}  // namespace

std::vector<bool> choose_residents(Candidates candidates, std::uint64_t budget_bytes) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].saved_per_byte != 0) {
      order.push_back(i);
    }
  }
  const auto benefit = [candidates](std::size_t i) { return candidates[i].saved_per_byte; };
  std::ranges::stable_sort(order, std::greater{}, benefit);
  std::vector<bool> kept(candidates.size(), false);
  for (std::span<const std::size_t> left = order; !left.empty();) {
    const auto end = std::ranges::find_if(
        left, [&](std::size_t i) { return benefit(i) != benefit(left.front()); });
    const auto equals = left.first(static_cast<std::size_t>(end - left.begin()));
    left = left.subspan(equals.size());
    const double bytes = std::accumulate(
        equals.begin(), equals.end(), 0.0,
        [&](double sum, std::size_t i) { return sum + static_cast<double>(candidates[i].bytes); });
    keep_share(candidates, equals, static_cast<double>(budget_bytes) / std::max(bytes, 1.0),
               budget_bytes, kept);
    keep_share(candidates, equals, std::numeric_limits<double>::infinity(), budget_bytes, kept);
  }
  return kept;
}

}  // namespace penstock

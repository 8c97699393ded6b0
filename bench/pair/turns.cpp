#include "bench/pair/turns.h"

#include <algorithm>
#include <numeric>

#include "alloc/check.h"
#include "bench/pair/pair_statistics.h"

namespace penstock::bench {

Result<std::vector<RunPair>> take_turns(std::uint32_t pairs, const RunSide& ours,
                                        const RunSide& theirs,
                                        const std::function<bool()>& interrupted) {
  std::vector<RunPair> done;
  while (done.size() < pairs && !(interrupted && interrupted())) {
    const bool ours_first = done.size() % 2 == 0;
    const Result<MeasuredRun> first = ours_first ? ours() : theirs();
    PENSTOCK_TRY(first);
    const Result<MeasuredRun> second = ours_first ? theirs() : ours();
    PENSTOCK_TRY(second);
    done.push_back(ours_first ? RunPair{*first, *second} : RunPair{*second, *first});
  }
  return done;
}

PairResult compare_runs(std::span<const RunPair> pairs) {
  PENSTOCK_CHECK(!pairs.empty(), "no pairs");
  PairResult result;
  result.pairs = static_cast<std::uint32_t>(pairs.size());
  for (const RunPair& pair : pairs) {
    result.ratios.push_back(pair.ours.bytes_per_second() / pair.theirs.bytes_per_second());
    result.cpu_ratios.push_back(pair.ours.cpu_ms_per_gb() / pair.theirs.cpu_ms_per_gb());
  }
  result.ratio_median = median(result.ratios);
  result.ratio_iqr = interquartile_range(result.ratios);
  const Interval interval = median_interval(result.ratios);
  result.ratio_low = interval.low;
  result.ratio_high = interval.high;
  result.cpu_ratio_median = median(result.cpu_ratios);
  result.cpu_ratio_iqr = interquartile_range(result.cpu_ratios);
  const Interval cpu_interval = median_interval(result.cpu_ratios);
  result.cpu_ratio_low = cpu_interval.low;
  result.cpu_ratio_high = cpu_interval.high;
  return result;
}

std::size_t median_pair(std::span<const RunPair> pairs) {
  PENSTOCK_CHECK(!pairs.empty(), "no pairs");
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t at) { return pairs[at].ours.bytes_per_second(); });
  return order[(order.size() - 1) / 2];
}

}  // namespace penstock::bench

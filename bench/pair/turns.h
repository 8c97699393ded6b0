#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "alloc/result.h"
#include "bench/measure/job_result.h"
#include "bench/pair/measured_run.h"

namespace penstock::bench {

/// One run of each side, one right after the other.
struct RunPair {
  MeasuredRun ours;
  MeasuredRun theirs;
};

using RunSide = std::function<Result<MeasuredRun>()>;

/// Ours first, then theirs; in the next pair theirs first, and so on (ABBA): whatever drifts while
/// this goes on does so for both. Ends early, after a whole pair, once `interrupted` (may be empty)
/// says so. Errors: the first of either side.
Result<std::vector<RunPair>> take_turns(std::uint32_t pairs, const RunSide& ours,
                                        const RunSide& theirs,
                                        const std::function<bool()>& interrupted = {});

/// Medians, quartiles and intervals of the pairs' ratios; `peer` and `peer_settings` are the
/// caller's to fill. At least one pair.
PairResult compare_runs(std::span<const RunPair> pairs);

/// The place of the pair whose run of ours has the median bandwidth (the lower of two).
std::size_t median_pair(std::span<const RunPair> pairs);

}  // namespace penstock::bench

#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "alloc/result.h"
#include "bench/pair/measured_run.h"

namespace penstock::bench {

struct SearchLimits {
  std::chrono::nanoseconds budget = std::chrono::seconds(8);  ///< no round begins after it
  std::size_t rounds_min = 3;                                 ///< that many in any case
  std::size_t rounds_max = 7;
};

/// Finds a program's best settings for a work: `run(candidate)` for each of [0, candidates) in
/// turn, there and back, round after round. What counts is each candidate's bandwidth beside the
/// others' of the same round, the median of the rounds, so that a drive that drifts does no harm.
/// Of those within 3 % of the best the one that costs least CPU a byte is returned. One that fails
/// is out; an error if none is left: the first one's.
Result<std::size_t> find_best_settings(std::size_t candidates,
                                       const std::function<Result<MeasuredRun>(std::size_t)>& run,
                                       const SearchLimits& limits = {});

}  // namespace penstock::bench

#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "alloc/result.h"
#include "bench/pair/candidate_rounds.h"
#include "bench/pair/pair_statistics.h"

namespace penstock::bench {

/// How much faster one thing is than another, both run in turns.
struct Advantage {
  double ratio = 1;              ///< of bandwidths, the median of the turns
  Interval confidence = {1, 1};  ///< where it lies with 95 % confidence
  std::size_t turns = 0;
  double after = 0;  ///< bytes per second, median

  /// Faster beyond the noise: by 3 % at the median of three turns or more, and the whole interval
  /// above 1.
  bool is_real() const noexcept;
};

/// Runs both in turns. Nothing where one failed, or there were fewer than two turns.
std::optional<Advantage> compare_in_turns(const std::function<Result<MeasuredRun>()>& before,
                                          const std::function<Result<MeasuredRun>()>& after,
                                          const RoundLimits& limits);

}  // namespace penstock::bench

#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "alloc/result.h"
#include "bench/pair/measured_run.h"

namespace penstock::bench {

/// What rounds have shown of one candidate.
struct CandidateRounds {
  std::optional<Error> refusal;   ///< it failed, and has not been run since
  std::vector<MeasuredRun> runs;  ///< one of each round before that

  bool is_left() const noexcept { return !refusal; }
  /// Bytes a second of each run.
  std::vector<double> bandwidths() const;
};

/// Who says how long rounds go on; what is empty never ends them.
struct RoundLimits {
  std::size_t rounds_max = 3;
  std::function<bool(std::size_t done)> is_enough = {};  ///< asked before each round
  std::function<bool()> interrupted = {};                ///< asked after each run
};

/// Runs each of [0, candidates) in turn, there and back, round after round, so that a drive that
/// drifts does the same to all. A round that was interrupted, or in which none was left, does not
/// count.
std::vector<CandidateRounds> run_candidate_rounds(
    std::size_t candidates, const std::function<Result<MeasuredRun>(std::size_t)>& run,
    const RoundLimits& limits);

}  // namespace penstock::bench

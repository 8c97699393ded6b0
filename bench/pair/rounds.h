#pragma once

#include <chrono>
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

  /// Bytes a second of each run.
  std::vector<double> bandwidths() const;
};

/// When rounds end.
struct RoundLimits {
  std::size_t rounds_max = 3;
  std::size_t rounds_min = 0;  ///< that many, whatever the time
  /// No round begins after it.
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
  bool failure_ends = false;               ///< else who fails is out, and the others go on
  std::function<bool()> interrupted = {};  ///< asked after each run; may be empty
};

using CandidateRun = std::function<Result<MeasuredRun>(std::size_t candidate)>;

/// Runs each of [0, candidates) in turn, there and back, round after round (of two: ABBA), so that
/// a drive that drifts does the same to all. A round that was not finished does not count.
std::vector<CandidateRounds> run_rounds(std::size_t candidates, const CandidateRun& run,
                                        const RoundLimits& limits);

/// Finds a program's best settings for a work. What counts is each candidate's bandwidth beside the
/// others' of the same round, the median of the rounds. Of those within 3 % of the best the one
/// that costs least CPU a byte is returned. An error if all fail: the first one's; ECANCELED
/// where it was interrupted.
Result<std::size_t> find_best_settings(std::size_t candidates, const CandidateRun& run,
                                       const RoundLimits& limits);

}  // namespace penstock::bench

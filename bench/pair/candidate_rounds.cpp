#include "bench/pair/candidate_rounds.h"

#include <algorithm>
#include <iterator>

namespace penstock::bench {
namespace {

// False: interrupted.
bool run_round(std::vector<CandidateRounds>& candidates, bool backwards,
               const std::function<Result<MeasuredRun>(std::size_t)>& run,
               const RoundLimits& limits) {
  for (std::size_t count = 0; count < candidates.size(); ++count) {
    const std::size_t at = backwards ? candidates.size() - 1 - count : count;
    if (!candidates[at].is_left()) {
      continue;
    }
    Result<MeasuredRun> done = run(at);
    if (limits.interrupted && limits.interrupted()) {
      return false;
    }
    if (done.has_error()) {
      candidates[at].refusal = std::move(done).error();
    } else {
      candidates[at].runs.push_back(*done);
    }
  }
  return true;
}

}  // namespace

std::vector<double> CandidateRounds::bandwidths() const {
  std::vector<double> all;
  all.reserve(runs.size());
  std::ranges::transform(runs, std::back_inserter(all), &MeasuredRun::bytes_per_second);
  return all;
}

std::vector<CandidateRounds> run_candidate_rounds(
    std::size_t candidates, const std::function<Result<MeasuredRun>(std::size_t)>& run,
    const RoundLimits& limits) {
  std::vector<CandidateRounds> all(candidates);
  for (std::size_t round = 0; round < limits.rounds_max; ++round) {
    if (std::ranges::none_of(all, &CandidateRounds::is_left) ||
        (limits.is_enough && limits.is_enough(round))) {
      break;
    }
    if (!run_round(all, round % 2 == 1, run, limits)) {
      for (CandidateRounds& candidate : all) {
        candidate.runs.resize(std::min(candidate.runs.size(), round));
      }
      break;
    }
  }
  return all;
}

}  // namespace penstock::bench

#include "bench/pair/settings_search.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "alloc/check.h"
#include "bench/pair/candidate_rounds.h"
#include "bench/pair/pair_statistics.h"

namespace penstock::bench {
namespace {

// Smaller differences are noise in a search of seconds; each is judged by its better rounds.
constexpr double kAsGood = 0.97;
constexpr double kBetterRounds = 0.75;

// The bandwidth of each round beside that round's best.
std::vector<std::vector<double>> shares_of(const std::vector<CandidateRounds>& candidates) {
  std::vector<double> best;
  for (const CandidateRounds& candidate : candidates) {
    best.resize(std::max(best.size(), candidate.runs.size()), 0);
    for (std::size_t round = 0; round < candidate.runs.size(); ++round) {
      best[round] = std::max(best[round], candidate.runs[round].bytes_per_second());
    }
  }
  std::vector<std::vector<double>> shares(candidates.size());
  for (std::size_t at = 0; at < candidates.size(); ++at) {
    for (std::size_t round = 0; round < candidates[at].runs.size(); ++round) {
      shares[at].push_back(candidates[at].runs[round].bytes_per_second() / best[round]);
    }
  }
  return shares;
}

double cost_of(const CandidateRounds& candidate) {
  std::vector<double> cpu_ms_per_gb;
  for (const MeasuredRun& run : candidate.runs) {
    cpu_ms_per_gb.push_back(run.cpu_ms_per_gb());
  }
  return median(cpu_ms_per_gb);
}

}  // namespace

Result<std::size_t> find_best_settings(std::size_t candidates,
                                       const std::function<Result<MeasuredRun>(std::size_t)>& run,
                                       const SearchLimits& limits) {
  PENSTOCK_CHECK(candidates > 0, "nothing to choose from");
  PENSTOCK_CHECK(limits.rounds_min > 0, "no round");
  const auto end = std::chrono::steady_clock::now() + limits.budget;
  RoundLimits rounds{.rounds_max = limits.rounds_max};
  rounds.is_enough = [&limits, end](std::size_t done) {
    return done >= limits.rounds_min && std::chrono::steady_clock::now() >= end;
  };
  const std::vector<CandidateRounds> all = run_candidate_rounds(candidates, run, rounds);
  if (std::ranges::none_of(all, &CandidateRounds::is_left)) {
    return *all.front().refusal;
  }
  const std::vector<std::vector<double>> shares = shares_of(all);
  double best_share = 0;
  for (std::size_t at = 0; at < all.size(); ++at) {
    best_share = all[at].is_left() ? std::max(best_share, median(shares[at])) : best_share;
  }
  std::optional<std::size_t> best;
  for (std::size_t at = 0; at < all.size(); ++at) {
    if (all[at].is_left() && quantile(shares[at], kBetterRounds) >= kAsGood * best_share &&
        (!best || cost_of(all[at]) < cost_of(all[*best]))) {
      best = at;
    }
  }
  return *best;
}

}  // namespace penstock::bench

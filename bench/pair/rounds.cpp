#include "bench/pair/rounds.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "alloc/check.h"
#include "bench/pair/pair_statistics.h"

namespace penstock::bench {
namespace {

// Smaller differences are noise in a search of seconds; each is judged by its better rounds.
constexpr double kAsGood = 0.97;
constexpr double kBetterRounds = 0.75;

// False: it was not finished.
bool run_round(std::vector<CandidateRounds>& candidates, bool backwards, const CandidateRun& run,
               const RoundLimits& limits) {
  for (std::size_t count = 0; count < candidates.size(); ++count) {
    const std::size_t at = backwards ? candidates.size() - 1 - count : count;
    if (candidates[at].refusal) {
      continue;
    }
    Result<MeasuredRun> done = run(at);
    if (limits.interrupted && limits.interrupted()) {
      return false;
    }
    if (done.has_value()) {
      candidates[at].runs.push_back(*done);
      continue;
    }
    candidates[at].refusal = std::move(done).error();
    if (limits.failure_ends) {
      return false;
    }
  }
  return true;
}

bool has_failed(const CandidateRounds& candidate) {
  return candidate.refusal.has_value();
}

// The bandwidth of each round beside that round's best.
std::vector<std::vector<double>> shares_of(const std::vector<CandidateRounds>& candidates) {
  std::vector<double> best;
  std::vector<std::vector<double>> shares;
  for (const CandidateRounds& candidate : candidates) {
    shares.push_back(candidate.bandwidths());
    best.resize(std::max(best.size(), shares.back().size()), 0);
    std::ranges::transform(shares.back(), best, best.begin(), std::ranges::max);
  }
  for (std::vector<double>& of_candidate : shares) {
    std::ranges::transform(of_candidate, best, of_candidate.begin(), std::divides{});
  }
  return shares;
}

double cost_of(const CandidateRounds& candidate) {
  std::vector<double> cpu_ms_per_gb;
  std::ranges::transform(candidate.runs, std::back_inserter(cpu_ms_per_gb),
                         &MeasuredRun::cpu_ms_per_gb);
  return median(cpu_ms_per_gb);
}

}  // namespace

std::vector<double> CandidateRounds::bandwidths() const {
  std::vector<double> all;
  std::ranges::transform(runs, std::back_inserter(all), &MeasuredRun::bytes_per_second);
  return all;
}

std::vector<CandidateRounds> run_rounds(std::size_t candidates, const CandidateRun& run,
                                        const RoundLimits& limits) {
  std::vector<CandidateRounds> all(candidates);
  for (std::size_t round = 0; round < limits.rounds_max; ++round) {
    if (std::ranges::all_of(all, has_failed) ||
        (round >= limits.rounds_min && std::chrono::steady_clock::now() >= limits.end)) {
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

Result<std::size_t> find_best_settings(std::size_t candidates, const CandidateRun& run,
                                       const RoundLimits& limits) {
  PENSTOCK_CHECK(candidates > 0, "nothing to choose from");
  PENSTOCK_CHECK(limits.rounds_min > 0, "no round");
  const std::vector<CandidateRounds> all = run_rounds(candidates, run, limits);
  if (limits.interrupted && limits.interrupted()) {
    return system_error(ECANCELED, "interrupted");
  }
  if (std::ranges::all_of(all, has_failed)) {
    return *all.front().refusal;
  }
  const std::vector<std::vector<double>> shares = shares_of(all);
  double best_share = 0;
  for (std::size_t at = 0; at < all.size(); ++at) {
    best_share = has_failed(all[at]) ? best_share : std::max(best_share, median(shares[at]));
  }
  std::optional<std::size_t> best;
  for (std::size_t at = 0; at < all.size(); ++at) {
    if (!has_failed(all[at]) && quantile(shares[at], kBetterRounds) >= kAsGood * best_share &&
        (!best || cost_of(all[at]) < cost_of(all[*best]))) {
      best = at;
    }
  }
  return *best;
}

}  // namespace penstock::bench

#include "bench/pair/settings_search.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "alloc/check.h"
#include "bench/pair/pair_statistics.h"

namespace penstock::bench {
namespace {

// Less than this nobody can tell apart in a search of seconds, nor what its better rounds reach.
constexpr double kAsGood = 0.97;
constexpr double kBetterRounds = 0.75;

struct Candidate {
  std::optional<Error> refusal;
  std::vector<double> share;  // of each round's best bandwidth
  std::vector<double> cpu_ms_per_gb;
};

// Runs what is left of `candidates` once, in an order that turns round after round.
void run_round(std::vector<Candidate>& candidates, bool backwards,
               const std::function<Result<Leg>(std::size_t)>& run) {
  std::vector<double> bandwidth(candidates.size(), 0);
  for (std::size_t count = 0; count < candidates.size(); ++count) {
    const std::size_t at = backwards ? candidates.size() - 1 - count : count;
    if (candidates[at].refusal) {
      continue;
    }
    const Result<Leg> leg = run(at);
    if (leg.has_error()) {
      candidates[at].refusal = leg.error();
      continue;
    }
    bandwidth[at] = leg->bytes_per_second();
    candidates[at].cpu_ms_per_gb.push_back(leg->cpu_ms_per_gb());
  }
  const double best = *std::ranges::max_element(bandwidth);
  for (std::size_t at = 0; at < candidates.size(); ++at) {
    if (!candidates[at].refusal) {
      candidates[at].share.push_back(bandwidth[at] / best);
    }
  }
}

bool is_left(const Candidate& candidate) {
  return !candidate.refusal;
}

}  // namespace

Result<std::size_t> find_best_settings(std::size_t candidates,
                                       const std::function<Result<Leg>(std::size_t)>& run,
                                       const SearchLimits& limits) {
  PENSTOCK_CHECK(candidates > 0, "nothing to choose from");
  PENSTOCK_CHECK(limits.rounds_min > 0, "no round");
  std::vector<Candidate> all(candidates);
  const auto end = std::chrono::steady_clock::now() + limits.budget;
  for (std::size_t round = 0; round < limits.rounds_max; ++round) {
    if (round >= limits.rounds_min && std::chrono::steady_clock::now() >= end) {
      break;
    }
    run_round(all, round % 2 == 1, run);
    if (std::ranges::none_of(all, is_left)) {
      return *all.front().refusal;
    }
  }
  double best_share = 0;
  for (const Candidate& candidate : all) {
    best_share = is_left(candidate) ? std::max(best_share, median(candidate.share)) : best_share;
  }
  std::optional<std::size_t> best;
  for (std::size_t at = 0; at < all.size(); ++at) {
    if (is_left(all[at]) && quantile(all[at].share, kBetterRounds) >= kAsGood * best_share &&
        (!best || median(all[at].cpu_ms_per_gb) < median(all[*best].cpu_ms_per_gb))) {
      best = at;
    }
  }
  return *best;
}

}  // namespace penstock::bench

#include "bench/tune/aio_search.h"

#include <algorithm>
#include <array>

#include "alloc/bytes.h"

namespace penstock::bench {
namespace {

// Smaller differences are noise in a search of seconds.
constexpr double kAsGood = 0.97;
constexpr double kFaster = 1.03;
constexpr std::size_t kTurnsMin = 3;  // with fewer an interval says nothing
constexpr std::size_t kTurns = 6;
constexpr std::size_t kRounds = 2;
// Little's law: a drive of 14 GB/s with 4 ms to each request wants 56 MiB under way.
constexpr std::uint64_t kUnderWayBytesMax = 64 * kMiB;

// The first of those that are as good as the best, beside the first candidate's bandwidth.
std::size_t cheapest_of_the_best(const std::vector<CandidateRounds>& rounds) {
  const std::vector<double> present = rounds.front().bandwidths();
  std::vector<double> ratios(rounds.size(), 0);
  for (std::size_t at = 0; at < rounds.size(); ++at) {
    const std::vector<double> here = rounds[at].bandwidths();
    if (rounds[at].refusal || here.size() != present.size()) {
      continue;
    }
    std::vector<double> beside;
    for (std::size_t round = 0; round < here.size(); ++round) {
      beside.push_back(here[round] / present[round]);
    }
    ratios[at] = median(beside);
  }
  const double best = *std::ranges::max_element(ratios);
  const auto found =
      std::ranges::find_if(ratios, [best](double ratio) { return ratio >= kAsGood * best; });
  return static_cast<std::size_t>(found - ratios.begin());
}

}  // namespace

bool Advantage::is_real() const noexcept {
  return turns >= kTurnsMin && ratio >= kFaster && confidence.low > 1;
}

RoundLimits limits_of(const SearchStops& stops, std::size_t rounds) {
  RoundLimits limits{.rounds_max = rounds};
  limits.interrupted = stops.interrupted;
  limits.is_enough = [&stops](std::size_t) { return stops.is_over && stops.is_over(); };
  return limits;
}

std::optional<Advantage> compare_in_turns(const std::function<Result<MeasuredRun>()>& before,
                                          const std::function<Result<MeasuredRun>()>& after,
                                          const SearchStops& stops) {
  const std::vector<CandidateRounds> rounds = run_candidate_rounds(
      2, [&](std::size_t at) { return at == 0 ? before() : after(); }, limits_of(stops, kTurns));
  const std::vector<double> first = rounds[0].bandwidths();
  const std::vector<double> second = rounds[1].bandwidths();
  if (rounds[0].refusal || rounds[1].refusal || first.size() < 2) {
    return std::nullopt;
  }
  std::vector<double> ratios;
  for (std::size_t turn = 0; turn < first.size(); ++turn) {
    ratios.push_back(second[turn] / first[turn]);
  }
  return Advantage{median(ratios), median_interval(ratios), ratios.size(), median(first),
                   median(second)};
}

std::vector<AioSettings> aio_trials(const AioSettings& present, std::uint32_t cpus) {
  std::vector<AioSettings> trials;
  for (const std::uint32_t threads : {1U, 4U}) {
    for (const std::uint32_t depth : {8U, 32U}) {
      const AioSettings settings{present.block_bytes, depth, threads};
      if (threads <= std::max(cpus, 1U) && settings != present &&
          settings.block_bytes * depth <= kUnderWayBytesMax / threads) {
        trials.push_back(settings);
      }
    }
  }
  return trials;
}

AioSearchResult search_aio(const AioSettings& present, const std::vector<AioSettings>& trials,
                           const std::function<Result<MeasuredRun>(const AioSettings&)>& run,
                           const SearchStops& stops) {
  std::vector<AioSettings> all{present};
  all.insert(all.end(), trials.begin(), trials.end());
  AioSearchResult result{present, present, present};
  const std::vector<CandidateRounds> rounds = run_candidate_rounds(
      all.size(), [&](std::size_t at) { return run(all[at]); }, limits_of(stops, kRounds));
  result.refusal = rounds.front().refusal;
  result.was_run = !rounds.front().bandwidths().empty();
  if (result.refusal || !result.was_run) {
    return result;
  }
  result.present_bytes_per_second = median(rounds.front().bandwidths());
  result.tried = all[cheapest_of_the_best(rounds)];
  if (result.tried != present) {
    result.advantage =
        compare_in_turns([&] { return run(present); }, [&] { return run(result.tried); }, stops);
  }
  if (result.advantage) {
    result.present_bytes_per_second = result.advantage->before;
  }
  const bool better = result.advantage && result.advantage->is_real();
  result.best = better ? result.tried : present;
  result.best_bytes_per_second = better ? result.advantage->after : result.present_bytes_per_second;
  return result;
}

}  // namespace penstock::bench

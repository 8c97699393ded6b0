#include "bench/pair/pair_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "alloc/check.h"

namespace penstock::bench {
namespace {

constexpr std::size_t kResamples = 4000;
constexpr std::uint64_t kSeed = 1;
constexpr double kTicksMin = 50;  // a tick at either end is 2 % or less each

double quantile_of_sorted(std::span<const double> sorted, double share) {
  PENSTOCK_CHECK(!sorted.empty(), "no values");
  const double place = share * static_cast<double>(sorted.size() - 1);
  const double below = std::floor(place);
  const auto first = static_cast<std::size_t>(below);
  const std::size_t second = std::min(first + 1, sorted.size() - 1);
  if (place == below || sorted[first] == sorted[second]) {
    return sorted[first];  // beside an infinite one too
  }
  return sorted[first] + (place - below) * (sorted[second] - sorted[first]);
}

// Of as many values as there are, drawn with repetition. std::mt19937_64's numbers are the same
// everywhere, those of the standard's distributions are not.
double median_of_draw(std::span<const double> values, std::mt19937_64& random) {
  std::vector<double> drawn(values.size());
  for (double& value : drawn) {
    value = values[(random() >> 32) * values.size() >> 32];
  }
  return median(drawn);
}

Interval interval_of(double confidence, const std::function<double(std::mt19937_64&)>& draw) {
  std::mt19937_64 random(kSeed);
  std::vector<double> found(kResamples);
  std::ranges::generate(found, [&] { return draw(random); });
  std::ranges::sort(found);
  const double outside = (1 - confidence) / 2;
  return {quantile_of_sorted(found, outside), quantile_of_sorted(found, 1 - outside)};
}

PairRatios ratios_of(std::vector<double> all) {
  const Interval interval = median_interval(all);
  const double middle = median(all);
  const double iqr = interquartile_range(all);
  return {std::move(all), middle, iqr, interval.low, interval.high};
}

}  // namespace

double quantile(std::span<const double> values, double share) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return quantile_of_sorted(sorted, share);
}

double median(std::span<const double> values) {
  return quantile(values, 0.5);
}

double interquartile_range(std::span<const double> values) {
  return quantile(values, 0.75) - quantile(values, 0.25);
}

Interval median_interval(std::span<const double> values, double confidence) {
  return interval_of(confidence, [&](auto& random) { return median_of_draw(values, random); });
}

Interval median_interval(std::span<const double> first, std::span<const double> second,
                         const std::function<double(double, double)>& made, double confidence) {
  return interval_of(confidence, [&](auto& random) {
    const double one = median_of_draw(first, random);
    return made(one, median_of_draw(second, random));
  });
}

PairResult compare_runs(std::span<const MeasuredRun> ours, std::span<const MeasuredRun> theirs) {
  PENSTOCK_CHECK(!ours.empty() && ours.size() == theirs.size(), "no pairs");
  std::vector<double> bandwidth;
  std::vector<double> cpu;
  for (std::size_t at = 0; at < ours.size(); ++at) {
    bandwidth.push_back(ours[at].bytes_per_second() / theirs[at].bytes_per_second());
    cpu.push_back(ours[at].cpu_ms_per_gb() / theirs[at].cpu_ms_per_gb());
  }
  const MeasuredRun& shortest = *std::ranges::min_element(theirs, {}, &MeasuredRun::seconds);
  const bool is_short = shortest.seconds < kTicksMin * shortest.tick_seconds;
  PairResult result;
  result.bandwidth = ratios_of(std::move(bandwidth));
  result.cpu = ratios_of(std::move(cpu));
  result.short_seconds = is_short ? shortest.seconds : 0;
  return result;
}

}  // namespace penstock::bench

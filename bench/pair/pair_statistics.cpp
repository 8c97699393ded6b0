#include "bench/pair/pair_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "alloc/check.h"

namespace penstock::bench {
namespace {

constexpr std::size_t kResamples = 4000;
constexpr std::uint64_t kSeed = 1;

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

Interval median_ratio_interval(std::span<const double> numerator,
                               std::span<const double> denominator, double confidence) {
  return interval_of(confidence, [&](auto& random) {
    const double above = median_of_draw(numerator, random);
    return above / median_of_draw(denominator, random);
  });
}

Interval median_difference_interval(std::span<const double> first, std::span<const double> second,
                                    double confidence) {
  return interval_of(confidence, [&](auto& random) {
    const double minuend = median_of_draw(first, random);
    return minuend - median_of_draw(second, random);
  });
}

PairResult compare_runs(std::span<const MeasuredRun> ours, std::span<const MeasuredRun> theirs) {
  PENSTOCK_CHECK(!ours.empty() && ours.size() == theirs.size(), "no pairs");
  PairResult result;
  result.pairs = static_cast<std::uint32_t>(ours.size());
  for (std::size_t at = 0; at < ours.size(); ++at) {
    result.ratios.push_back(ours[at].bytes_per_second() / theirs[at].bytes_per_second());
    result.cpu_ratios.push_back(ours[at].cpu_ms_per_gb() / theirs[at].cpu_ms_per_gb());
  }
  result.ratio_median = median(result.ratios);
  result.ratio_iqr = interquartile_range(result.ratios);
  const Interval interval = median_interval(result.ratios);
  result.ratio_low = interval.low;
  result.ratio_high = interval.high;
  result.cpu_ratio_median = median(result.cpu_ratios);
  result.cpu_ratio_iqr = interquartile_range(result.cpu_ratios);
  const Interval cpu_interval = median_interval(result.cpu_ratios);
  result.cpu_ratio_low = cpu_interval.low;
  result.cpu_ratio_high = cpu_interval.high;
  return result;
}

}  // namespace penstock::bench

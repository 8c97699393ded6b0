#include "bench/pair/pair_statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "alloc/check.h"

namespace penstock::bench {
namespace {

double quantile_of_sorted(std::span<const double> sorted, double share) {
  PENSTOCK_CHECK(!sorted.empty(), "no values");
  PENSTOCK_CHECK(share >= 0 && share <= 1, "share {}", share);
  const double place = share * static_cast<double>(sorted.size() - 1);
  const double below = std::floor(place);
  const auto first = static_cast<std::size_t>(below);
  const std::size_t second = std::min(first + 1, sorted.size() - 1);
  return sorted[first] + (place - below) * (sorted[second] - sorted[first]);
}

// Draws as many values as there are, with repetition. std::mt19937_64's numbers are the same
// everywhere, those of the standard's distributions are not.
class Resampler {
 public:
  explicit Resampler(std::uint64_t seed) : random_(seed) {}

  double median_of_draw(std::span<const double> values) {
    drawn_.resize(values.size());
    for (double& value : drawn_) {
      value = values[(random_() >> 32) * values.size() >> 32];
    }
    std::ranges::sort(drawn_);
    return quantile_of_sorted(drawn_, 0.5);
  }

 private:
  std::mt19937_64 random_;
  std::vector<double> drawn_;
};

template <class Draw>
Interval interval_of(const BootstrapOptions& options, Draw draw) {
  PENSTOCK_CHECK(options.confidence > 0 && options.confidence < 1, "confidence {}",
                 options.confidence);
  std::vector<double> found(options.resamples);
  std::ranges::generate(found, draw);
  std::ranges::sort(found);
  const double outside = (1 - options.confidence) / 2;
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

Interval median_interval(std::span<const double> values, const BootstrapOptions& options) {
  Resampler resampler(options.seed);
  return interval_of(options, [&] { return resampler.median_of_draw(values); });
}

Interval median_ratio_interval(std::span<const double> numerator,
                               std::span<const double> denominator,
                               const BootstrapOptions& options) {
  Resampler resampler(options.seed);
  return interval_of(options, [&] {
    const double above = resampler.median_of_draw(numerator);
    return above / resampler.median_of_draw(denominator);
  });
}

Interval median_difference_interval(std::span<const double> first, std::span<const double> second,
                                    const BootstrapOptions& options) {
  Resampler resampler(options.seed);
  return interval_of(options, [&] {
    const double minuend = resampler.median_of_draw(first);
    return minuend - resampler.median_of_draw(second);
  });
}

}  // namespace penstock::bench

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::bench {

/// Both ends belong to it.
struct Interval {
  double low = 0;
  double high = 0;

  bool operator==(const Interval&) const = default;
};

/// How resampling goes about it. The same options give the same interval, on every machine.
struct BootstrapOptions {
  double confidence = 0.95;
  std::uint32_t resamples = 4000;
  std::uint64_t seed = 1;
};

/// The value that `share` (0..1) of `values` do not exceed, linear between neighbours (Hyndman and
/// Fan's type 7, numpy's default). `values` are not empty and finite, here and below.
double quantile(std::span<const double> values, double share);
double median(std::span<const double> values);
/// From the first quartile to the third.
double interquartile_range(std::span<const double> values);

/// Where the median of what `values` are a sample of lies (percentile bootstrap). Of one value that
/// is the value itself: it says nothing about its spread.
Interval median_interval(std::span<const double> values, const BootstrapOptions& options = {});
/// The same of the median of `numerator` over the median of `denominator`, two samples that were
/// not taken in pairs. No median that can be drawn from `denominator` is 0.
Interval median_ratio_interval(std::span<const double> numerator,
                               std::span<const double> denominator,
                               const BootstrapOptions& options = {});
/// And of the first median less the second one.
Interval median_difference_interval(std::span<const double> first, std::span<const double> second,
                                    const BootstrapOptions& options = {});

}  // namespace penstock::bench

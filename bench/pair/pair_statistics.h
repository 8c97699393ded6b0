#pragma once

#include <functional>
#include <span>

#include "bench/measure/job_result.h"
#include "bench/pair/measured_run.h"

namespace penstock::bench {

/// Both ends belong to it.
struct Interval {
  double low = 0;
  double high = 0;

  bool operator==(const Interval&) const = default;
};

/// The value that `share` (0..1) of `values` do not exceed, linear between neighbours (Hyndman and
/// Fan's type 7, numpy's default). `values` are not empty, here and below; infinite ones
/// may be among them.
double quantile(std::span<const double> values, double share);
double median(std::span<const double> values);
/// From the first quartile to the third.
double interquartile_range(std::span<const double> values);

/// Where the median of what `values` are a sample of lies (percentile bootstrap, the same on every
/// machine). Of one value that is the value itself: it says nothing about its spread.
Interval median_interval(std::span<const double> values, double confidence = 0.95);
/// The same of what two medians, of samples that were not taken in pairs, make: std::divides{}
/// (no median that can be drawn from `second` is 0), std::minus{}.
Interval median_interval(std::span<const double> first, std::span<const double> second,
                         const std::function<double(double, double)>& made,
                         double confidence = 0.95);

/// Ratios of ours to theirs, run by run, with their medians, quartiles and intervals; `peer` and
/// `peer_settings` are the caller's to fill. As many runs of both, at least one.
PairResult compare_runs(std::span<const MeasuredRun> ours, std::span<const MeasuredRun> theirs);

}  // namespace penstock::bench

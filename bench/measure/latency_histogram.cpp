#include "bench/measure/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace penstock::bench {
namespace {

constexpr std::uint32_t kBits = 6;
constexpr std::uint64_t kPerDoubling = 1U << kBits;
constexpr std::size_t kLastBucket = LatencyHistogram::kBuckets - 1;

// Below 128 ns a bucket a nanosecond; from there on 64 for each doubling; what is longer than all
// of them (17 s) goes into the last one.
std::size_t bucket_of(std::uint64_t ns) {
  if (ns < 2 * kPerDoubling) {
    return ns;
  }
  const auto shift = static_cast<std::uint32_t>(std::bit_width(ns)) - 1 - kBits;
  const std::uint64_t index = (shift + 1) * kPerDoubling + ((ns >> shift) & (kPerDoubling - 1));
  return std::min<std::uint64_t>(index, kLastBucket);
}

std::uint64_t middle_of(std::size_t bucket) {
  if (bucket < 2 * kPerDoubling) {
    return bucket;
  }
  const std::size_t shift = bucket / kPerDoubling - 1;
  const std::uint64_t width = std::uint64_t{1} << shift;
  return (kPerDoubling + bucket % kPerDoubling) * width + width / 2;
}

}  // namespace

void LatencyHistogram::add(std::uint64_t ns) {
  ++buckets_[bucket_of(ns)];
  ++count_;
  min_ = std::min(min_, ns);
  max_ = std::max(max_, ns);
  const auto value = static_cast<double>(ns);
  sum_ += value;
  sum_of_squares_ += value * value;
}

void LatencyHistogram::merge(const LatencyHistogram& other) {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    buckets_[index] += other.buckets_[index];
  }
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  sum_of_squares_ += other.sum_of_squares_;
}

double LatencyHistogram::mean() const noexcept {
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

double LatencyHistogram::standard_deviation() const noexcept {
  if (count_ < 2) {
    return 0;
  }
  const auto count = static_cast<double>(count_);
  const double variance = (sum_of_squares_ - sum_ * sum_ / count) / (count - 1);
  return std::sqrt(std::max(variance, 0.0));
}

std::uint64_t LatencyHistogram::percentile(double percent) const {
  const double wanted = std::clamp(percent, 0.0, 100.0) / 100 * static_cast<double>(count_);
  std::uint64_t below = 0;
  std::uint64_t latest = 0;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    if (buckets_[index] == 0) {
      continue;
    }
    below += buckets_[index];
    latest = middle_of(index);
    if (static_cast<double>(below) >= wanted) {
      break;
    }
  }
  return latest;
}

}  // namespace penstock::bench

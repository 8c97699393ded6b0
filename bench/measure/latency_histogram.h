#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace penstock::bench {

/// Latencies in nanoseconds, counted in buckets whose width is 1/64 of their value at most, as fio
/// counts them (its `stat.h`: 64 buckets below 128 ns, then 64 for each doubling): percentiles and
/// json+ bins of both can be laid beside each other. Not thread-safe.
class LatencyHistogram {
 public:
  /// As many as fio has: 29 doublings of 64.
  static constexpr std::size_t kBuckets = 29 * 64;

  void add(std::uint64_t ns);
  void merge(const LatencyHistogram& other);

  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t min() const noexcept { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const noexcept { return max_; }
  double mean() const noexcept;
  double standard_deviation() const noexcept;
  /// The latency that `percent` (0..100) of all do not exceed; 0 where there are none.
  std::uint64_t percentile(double percent) const;

 private:
  // All of them from the begin: add() allocates nothing.
  std::vector<std::uint64_t> buckets_ = std::vector<std::uint64_t>(kBuckets);
  std::uint64_t count_ = 0;
  std::uint64_t min_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t max_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

}  // namespace penstock::bench

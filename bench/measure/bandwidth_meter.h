#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/measure/job_result.h"

namespace penstock::bench {

/// How many bytes moved in each interval of a run. Has a fixed number of intervals: a run that is
/// longer than these doubles their length, so that no add() allocates. Not thread-safe.
class BandwidthMeter {
 public:
  static constexpr std::size_t kIntervals = 2048;
  static constexpr std::uint64_t kShortestNs = 10'000'000;

  /// `bytes` had moved `at_ns` after the run began.
  void add(std::uint64_t at_ns, std::uint64_t bytes);
  /// Forgets everything, for a run that begins anew.
  void clear();
  /// From the begin to `end_ns`, without gaps; empty where nothing moved.
  std::vector<BandwidthSample> samples(std::uint64_t end_ns) const;

 private:
  void double_interval();

  std::uint64_t interval_ns_ = kShortestNs;
  bool moved_ = false;
  std::vector<std::uint64_t> bytes_ = std::vector<std::uint64_t>(kIntervals);
};

}  // namespace penstock::bench

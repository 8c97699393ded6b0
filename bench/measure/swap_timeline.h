#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/measure/job_result.h"

namespace penstock::bench {

/// What a swap engine has done until one moment, and holds then.
struct SwapMoment {
  std::uint64_t at_ns = 0;  ///< since the run began
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t stall_ns = 0;
  std::uint64_t pinned_bytes = 0;    ///< that there are, now
  std::uint64_t live_bytes = 0;      ///< of them in use, now
  std::uint64_t pageable_bytes = 0;  ///< lent beside them, now
};

/// The course of a run, from moments as far apart as they come: what happened between two of them
/// is spread evenly over the time between. Has a fixed number of intervals, which double their
/// length when a run is longer than all of them, so that no add() allocates. Not thread-safe.
class SwapTimeline {
 public:
  static constexpr std::size_t kIntervals = 1024;
  static constexpr std::uint64_t kShortestNs = 1'000'000;

  SwapTimeline() = default;
  /// The run begins with what the engine has done until then.
  explicit SwapTimeline(const SwapMoment& begin) : latest_(begin) {}

  /// Whether a moment at this time would show anything that the latest one does not.
  bool wants(std::uint64_t at_ns) const noexcept { return at_ns >= latest_.at_ns + interval_ns_; }
  /// Moments come in the order of time.
  void add(const SwapMoment& moment);

  /// From the begin to the latest moment, without gaps; empty where there was none.
  std::vector<SwapSample> samples() const;

 private:
  struct Interval {
    std::uint64_t read_bytes = 0;
    std::uint64_t write_bytes = 0;
    std::uint64_t stall_ns = 0;
    std::uint64_t pinned_bytes = 0;  // the most, as the next two
    std::uint64_t live_bytes = 0;
    std::uint64_t pageable_bytes = 0;

    void absorb(const Interval& next);
  };

  std::size_t index_of_end(std::uint64_t at_ns) const noexcept;
  void double_interval();

  std::uint64_t interval_ns_ = kShortestNs;
  SwapMoment latest_;
  std::vector<Interval> intervals_ = std::vector<Interval>(kIntervals);
};

}  // namespace penstock::bench

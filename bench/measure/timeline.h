#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::bench {

/// What a run has moved and waited for until `at_ns`, and what it holds then; or, of one interval
/// that ends then, what it moved and waited for in it and the most that it held.
struct Sample {
  std::uint64_t at_ns = 0;  ///< since the run began
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t stall_ns = 0;        ///< that callers waited for reads
  std::uint64_t pinned_bytes = 0;    ///< that there are
  std::uint64_t live_bytes = 0;      ///< of them in use
  std::uint64_t pageable_bytes = 0;  ///< lent beside them

  /// Adds the next interval, whose end is not taken over.
  void absorb(const Sample& next);
};

/// The course of a run, from moments as far apart as they come: what happened between two of them
/// is spread evenly over the time between. Has a fixed number of intervals, which double their
/// length when a run is longer than all of them, so that no add() allocates. Not thread-safe.
class Timeline {
 public:
  static constexpr std::size_t kIntervals = 1024;
  static constexpr std::uint64_t kShortestNs = 1'000'000;

  Timeline() = default;
  /// The run begins with what was done until then.
  explicit Timeline(const Sample& begin) : latest_(begin) {}

  /// Whether a moment at this time would show anything that the latest one does not.
  bool wants(std::uint64_t at_ns) const noexcept { return at_ns >= latest_.at_ns + interval_ns_; }
  /// Moments come in the order of time.
  void add(const Sample& moment);

  /// From the begin to the latest moment, without gaps; empty where there was none.
  std::vector<Sample> samples() const;

 private:
  std::size_t index_of_end(std::uint64_t at_ns) const noexcept;
  void double_interval();

  std::uint64_t interval_ns_ = kShortestNs;
  Sample latest_;
  std::vector<Sample> intervals_ = std::vector<Sample>(kIntervals);
};

/// What two threads did at the same time, together: where the intervals of one are longer, a sample
/// of the other counts in the one that it ends in.
std::vector<Sample> merged(const std::vector<Sample>& one, const std::vector<Sample>& other);

}  // namespace penstock::bench

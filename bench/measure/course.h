#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::bench {

/// What a run has moved and waited for until `at_ns`, and what it holds then.
struct Sample {
  std::uint64_t at_ns = 0;  ///< since the run began
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t stall_ns = 0;      ///< that callers waited for reads
  std::uint64_t pinned_bytes = 0;  ///< that there are
  std::uint64_t live_bytes = 0;    ///< of them in use

  bool operator==(const Sample&) const = default;
};

/// The course of a run: samples at least so far apart as a length that doubles whenever there are
/// too many, so that no add() allocates. Not thread-safe.
class Course {
 public:
  static constexpr std::size_t kSamples = 1024;

  Course() { samples_.reserve(kSamples); }
  /// Whether a sample at this time is far enough from the latest one.
  bool wants(std::uint64_t at_ns) const noexcept {
    return samples_.empty() || at_ns >= samples_.back().at_ns + apart_ns_;
  }
  /// Samples come in the order of time.
  void add(const Sample& sample) {
    if (samples_.size() == kSamples) {
      apart_ns_ *= 2;
      for (std::size_t at = 0; at < kSamples / 2; ++at) {
        samples_[at] = samples_[2 * at + 1];  // the latest stays
      }
      samples_.resize(kSamples / 2);
    }
    samples_.push_back(sample);
  }
  const std::vector<Sample>& samples() const noexcept { return samples_; }

 private:
  std::uint64_t apart_ns_ = 1'000'000;
  std::vector<Sample> samples_;
};

}  // namespace penstock::bench

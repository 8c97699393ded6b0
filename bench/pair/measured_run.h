#pragma once

#include <cstdint>

namespace penstock::bench {

/// What one run of one side moved, in what time, at what cost.
struct MeasuredRun {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  double seconds = 0;      ///< the part that is measured
  double cpu_seconds = 0;  ///< user and system time in it, of all threads that took part

  std::uint64_t bytes() const noexcept { return read_bytes + write_bytes; }
  double bytes_per_second() const noexcept { return static_cast<double>(bytes()) / seconds; }
  /// Milliseconds of one core for 1e9 bytes.
  double cpu_ms_per_gb() const noexcept {
    return cpu_seconds * 1e12 / static_cast<double>(bytes());
  }
};

}  // namespace penstock::bench

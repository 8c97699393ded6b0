#pragma once

#include <algorithm>
#include <cstdint>

#include "bench/measure/job_result.h"

namespace penstock::bench {

/// What one run of one side moved, in what time, at what cost.
struct MeasuredRun {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  double seconds = 0;       ///< the part that is measured
  double cpu_seconds = 0;   ///< user and system time in it, of all threads that took part
  double tick_seconds = 0;  ///< of the clock of `seconds`; 0: fine enough for any run

  std::uint64_t bytes() const noexcept { return read_bytes + write_bytes; }
  double bytes_per_second() const noexcept { return static_cast<double>(bytes()) / seconds; }
  /// Milliseconds of one core for 1e9 bytes.
  double cpu_ms_per_gb() const noexcept {
    return cpu_seconds * 1e12 / static_cast<double>(bytes());
  }
};

inline MeasuredRun measured_run(const JobResult& result) {
  const std::uint64_t ns = std::max(result.read.runtime_ns, result.write.runtime_ns);
  return {.read_bytes = result.read.io_bytes,
          .write_bytes = result.write.io_bytes,
          .seconds = static_cast<double>(ns) * 1e-9,
          .cpu_seconds = result.cpu.seconds()};
}

}  // namespace penstock::bench

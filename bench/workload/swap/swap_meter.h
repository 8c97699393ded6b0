#pragma once

#include <cstdint>

#include "bench/measure/course.h"
#include "bench/measure/cpu_clock.h"
#include "bench/measure/job_result.h"
#include "bench/workload/swap/swap_device.h"
#include "bench/workload/workload_run.h"
#include "swap/swap_engine.h"

namespace penstock::bench {

/// What an engine did between two moments, as a job's result has it: bytes are what came from and
/// went to drives, latencies those of the callers' tensors. Outlived by engine, device and control.
/// Used by the job's thread.
class SwapMeter {
 public:
  SwapMeter(const SwapEngine& engine, const SwapDevice& device, RunControl& control);

  /// From now on it counts.
  void begin();
  /// A tensor is asked for now; the time.
  std::uint64_t note_asked();
  /// A tensor that was asked for at `since_ns` is there.
  void note_read(std::uint64_t since_ns, std::uint64_t bytes);
  /// A content was handed over to be written; the latency of that is the drive's own matter.
  void note_written(std::uint64_t bytes);

  std::uint64_t elapsed_ns() const { return device_.now_ns() - began_ns_; }
  /// Fills the figures; those of the CPU only where it takes part in the time.
  void report(JobResult& result);

 private:
  void add_sample(const SwapStats& stats, std::uint64_t at_ns);
  // Of the job's thread, where it was long enough ago since the last time.
  void look();
  SwapResult swap_result(const SwapStats& now) const;

  const SwapEngine& engine_;
  const SwapDevice& device_;
  RunControl& control_;
  std::uint64_t began_ns_ = 0;
  SwapStats before_;
  CpuTime thread_before_;
  CpuTime process_before_;
  DirectionResult reads_;
  DirectionResult writes_;
  Course course_;
  std::uint64_t pageable_bytes_max_ = 0;  // of the samples, as the next
  std::uint64_t live_bytes_max_ = 0;
};

}  // namespace penstock::bench

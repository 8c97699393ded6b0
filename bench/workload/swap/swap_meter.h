#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "bench/measure/cpu_clock.h"
#include "bench/measure/job_result.h"
#include "bench/measure/timeline.h"
#include "bench/workload/swap/swap_device.h"
#include "bench/workload/workload_run.h"
#include "swap/swap_engine.h"

namespace penstock::bench {

/// What an engine did between two moments, as a job's result tells it: bytes are what came from and
/// went to drives, latencies those of the callers' tensors. Outlived by engine, device and control.
/// Callbacks may come from the I/O thread, also after its end.
class SwapMeter {
 public:
  SwapMeter(const SwapEngine& engine, const SwapDevice& device, RunControl& control);

  /// From now on it counts.
  void begin();
  /// A tensor is asked for now; the time.
  std::uint64_t note_asked();
  /// A tensor that was asked for at `since_ns` is there.
  void note_read(std::uint64_t since_ns, std::uint64_t bytes);
  /// `written` stands for a content that was handed over now.
  void watch_write(const Ticket& written, std::uint64_t bytes);

  /// Waits until it has heard of every write; after a flush(), which says so a moment earlier.
  void settle();
  /// A content was handed over without its ticket: counted, without a latency.
  void note_written(std::uint64_t bytes);

  std::uint64_t elapsed_ns() const { return device_.now_ns() - began_ns_; }
  /// Fills the figures; those of the CPU only where it takes part in the time.
  void report(JobResult& result);

 private:
  struct Direction {
    std::uint64_t tensors = 0;
    LatencyHistogram latencies;
  };
  /// What callbacks of tickets may still reach when the meter is gone.
  struct Writes {
    std::mutex mutex;
    Direction direction;       // guarded by mutex
    std::uint64_t counts = 0;  // of begin(): what was handed over before is not counted
    std::uint64_t underway = 0;
    std::condition_variable ended;  // underway is 0
  };

  static Sample moment(const SwapStats& stats, std::uint64_t at_ns);
  // Of the job's thread, where it was long enough ago since the last time.
  void look();
  static DirectionResult direction_result(const Direction& direction, std::uint64_t bytes,
                                          std::uint64_t elapsed_ns);
  SwapResult swap_result(const SwapStats& now) const;

  const SwapEngine& engine_;
  const SwapDevice& device_;
  RunControl& control_;
  std::uint64_t began_ns_ = 0;
  SwapStats before_;
  CpuTime thread_before_;
  CpuTime process_before_;
  Direction reads_;
  Timeline timeline_;
  std::shared_ptr<Writes> writes_ = std::make_shared<Writes>();
};

}  // namespace penstock::bench

#pragma once

#include <cstdint>

#include "bench/job/job.h"
#include "bench/workload/swap/swap_device.h"
#include "bench/workload/workload_run.h"

namespace penstock::bench {

/// How long a job that goes through loops lasts, with fio's meaning of `loops`, `runtime`,
/// `time_based` and `ramp_time`, by the clock of its device. Outlived by job, control and device.
class RunLength {
 public:
  RunLength(const Job& job, const RunControl& control, const SwapDevice& device)
      : job_(job), control_(control), device_(device), began_ns_(device.now_ns()) {}

  /// One loop, whatever the time.
  RunLength once() const;
  /// Whether one more loop is to be gone through before anything is measured.
  bool ramps_up() const;
  /// The time begins.
  void begin();
  /// Whether there is another loop to begin, which then counts.
  bool begins_loop();
  /// In the middle of a loop: time is over, or the user has had enough.
  bool is_over() const;

 private:
  std::uint64_t elapsed_ns() const { return device_.now_ns() - began_ns_; }

  const Job& job_;
  const RunControl& control_;
  const SwapDevice& device_;
  std::uint64_t began_ns_;
  std::uint32_t loops_begun_ = 0;
  bool runs_ = false;
};

/// What `compute=` says for a tensor of so many bytes.
std::uint64_t compute_ns(const Compute& compute, std::uint64_t bytes);

}  // namespace penstock::bench

#pragma once

#include <cstdint>

#include "bench/job/job.h"
#include "bench/workload/swap/swap_device.h"
#include "bench/workload/workload_run.h"

namespace penstock::bench {

/// How long a job that goes through loops lasts, with fio's meaning of `loops`, `runtime`,
/// `time_based` and `ramp_time`, by the clock of its device. Before begin() no time ends a loop.
/// Outlived by job, control and device.
class RunLength {
 public:
  RunLength(const Job& job, const RunControl& control, const SwapDevice& device)
      : job_(job), control_(control), device_(device), began_ns_(device.now_ns()) {}

  /// Whether one more loop is to be gone through before anything is measured.
  bool ramps_up() const { return !control_.stop && elapsed_ns() < job_.ramp_time_ns; }
  /// The time begins.
  void begin() {
    began_ns_ = device_.now_ns();
    runs_ = true;
  }
  /// Whether there is another loop to begin, which then counts.
  bool begins_loop() { return !is_over() && (job_.time_based || loops_begun_++ < job_.loops); }
  /// In the middle of a loop: time is over, or the user has had enough.
  bool is_over() const {
    return control_.stop || (runs_ && job_.runtime_ns && elapsed_ns() >= *job_.runtime_ns);
  }

 private:
  std::uint64_t elapsed_ns() const { return device_.now_ns() - began_ns_; }

  const Job& job_;
  const RunControl& control_;
  const SwapDevice& device_;
  std::uint64_t began_ns_;
  std::uint32_t loops_begun_ = 0;
  bool runs_ = false;
};

/// What `compute=` says for a tensor of so many bytes; 0 without it.
inline std::uint64_t compute_ns(const Job& job, std::uint64_t bytes) {
  if (!job.compute || job.compute->per == Compute::Per::kTensor) {
    return job.compute ? job.compute->ns : 0;
  }
  return static_cast<std::uint64_t>(static_cast<double>(job.compute->ns) *
                                    static_cast<double>(bytes) * 1e-9);
}

/// That passes.
inline void compute(const Job& job, SwapDevice& device, std::uint64_t bytes) {
  if (job.compute) {
    device.compute(compute_ns(job, bytes), job.compute->spins);
  }
}

}  // namespace penstock::bench

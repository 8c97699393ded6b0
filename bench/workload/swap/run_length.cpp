#include "bench/workload/swap/run_length.h"

#include <algorithm>

namespace penstock::bench {

RunLength RunLength::once() const {
  RunLength length = *this;
  length.runs_ = false;
  return length;
}

bool RunLength::ramps_up() const {
  return !control_.stop && elapsed_ns() < job_.ramp_time_ns;
}

void RunLength::begin() {
  began_ns_ = device_.now_ns();
  runs_ = true;
}

bool RunLength::begins_loop() {
  if (is_over() || (!job_.time_based && loops_begun_ >= std::max(job_.loops, 1U))) {
    return false;
  }
  ++loops_begun_;
  return true;
}

bool RunLength::is_over() const {
  return control_.stop || (runs_ && job_.runtime_ns && elapsed_ns() >= *job_.runtime_ns);
}

std::uint64_t compute_ns(const Compute& compute, std::uint64_t bytes) {
  if (compute.per == Compute::Per::kTensor) {
    return compute.ns;
  }
  return static_cast<std::uint64_t>(static_cast<double>(compute.ns) * static_cast<double>(bytes) *
                                    1e-9);
}

}  // namespace penstock::bench
